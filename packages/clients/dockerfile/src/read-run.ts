import { DockerfileError } from './dockerfile-error.ts';
import type { Heredoc, Instruction } from './instructions.ts';
import { readList } from './word-list.ts';

export const DEFAULT_SHELL = ['/bin/sh', '-c'];

/**
 * Returns the program and arguments of a `RUN`. Variables are left to the shell. A warning is added to `warnings` for a
 * flag without effect.
 */
export function readRun(instruction: Instruction, shell: readonly string[], warnings: string[]): readonly string[] {
  const { line, text, heredocs } = instruction;
  for (const flag of instruction.flags) checkFlag(flag, line, warnings);
  if (text === '') throw new DockerfileError(line, 'RUN needs a command.');
  const list = readList(instruction);
  if (list) {
    if (!list[0]) throw new DockerfileError(line, 'RUN needs the name of a program.');
    return list;
  }
  const [only] = heredocs;
  const isScript = only !== undefined && heredocs.length === 1 && /^<<-?(["']?)[^"'\s]+\1$/.test(text);
  return [
    ...shell,
    isScript ? script(only) : [text, ...heredocs.map(({ name, content }) => content + name)].join('\n'),
  ];
}

function checkFlag({ name, value }: { name: string; value: string }, line: number, warnings: string[]): void {
  const isCache = name === 'mount' && /(^|,)type=(cache|tmpfs)(,|$)/.test(value);
  if (isCache) {
    warnings.push(
      `line ${line}: --mount=${value} has no effect: the directory is an ordinary one, and what is in it stays.`,
    );
  } else if (!(name === 'network' && value === 'default')) {
    const remedy =
      name === 'mount' ? '; use COPY for files' : name === 'network' ? '; set networkPolicy in a template.json' : '';
    throw new DockerfileError(line, `RUN --${name}${value && `=${value}`} is not supported${remedy}.`);
  }
}

/** Returns a shell line that runs the document: by the shell itself, or by the program that its first line names. */
function script({ name, content }: Heredoc): string {
  if (!content.startsWith('#!')) return content;
  const file = '/tmp/.dockerfile-script';
  return `cat > ${file} <<'${name}' && chmod 700 ${file} && { ${file}; status=$?; rm -f ${file}; exit $status; }\n${content}${name}`;
}
