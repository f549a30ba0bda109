import { Argument, type Command } from 'commander';
import { leaf, perform } from '../command.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** Scripts that ask `cloche completion --words` for the candidates, which `main.ts` prints: lines of a word, a tab and what it is. */
const SCRIPTS: Readonly<Record<(typeof SHELLS)[number], string>> = {
  bash: `_cloche() {
  local IFS=$'\\n' line=\${COMP_LINE:0:COMP_POINT} word
  word=\${line##*[[:space:]]}
  local -a words=()
  IFS=$' \\t' read -r -a words <<< "$line"
  [[ -z $word ]] && words+=("")
  local -a found=($(cloche completion --words "\${words[@]:1}" 2>/dev/null | cut -f 1))
  # Readline takes a colon as the beginning of a word.
  local start=""
  [[ $word == *:* && $COMP_WORDBREAKS == *:* ]] && start=\${word%:*}:
  COMPREPLY=("\${found[@]#"$start"}")
  [[ \${#found[@]} -eq 0 ]] && compopt -o default
  [[ \${#found[@]} -eq 1 && \${found[0]} == *: ]] && compopt -o nospace
  return 0
}
complete -F _cloche cloche`,
  zsh: `#compdef cloche
_cloche() {
  local line word
  local -a found places
  for line in \${(f)"$(cloche completion --words "\${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
    word=\${line%%$'\\t'*}
    # A path follows a sandbox, without a space.
    if [[ $word == *: ]]; then places+=("\${word//:/\\\\:}:\${line#*$'\\t'}")
    else found+=("\${word//:/\\\\:}:\${line#*$'\\t'}"); fi
  done
  if (( $#found + $#places == 0 )); then _files; return; fi
  if (( $#found )); then _describe -V cloche found; fi
  if (( $#places )); then _describe -V cloche places -S ''; fi
}
compdef _cloche cloche`,
  fish: `function __cloche_complete
  set -l words (commandline -opc) (commandline -ct)
  cloche completion --words $words[2..] 2>/dev/null
end
complete -c cloche -e
complete -c cloche -a '(__cloche_complete)'`,
};

export function addCompletionCommand(program: Command): void {
  const command = leaf(program, 'completion', 'Print a script that completes commands, options and ids in a shell', [
    'source <(cloche completion bash)',
    'source <(cloche completion zsh)',
    'cloche completion fish | source',
  ]).addHelpText('after', '\nPut the line of your shell into ~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish.');
  command.addArgument(new Argument('<shell>', 'yours').choices(SHELLS));
  perform(command, async (session, _options, shell: (typeof SHELLS)[number]) => {
    await session.terminal.out.line(SCRIPTS[shell]);
  });
}
