/** The scripts of `cloche completion` in real shells, each in a terminal. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { compileCache } from '@cloche/testkit/compile-cache';
import { TerminalProcess } from '@cloche/testkit/terminal-process';
import { execaSync } from 'execa';
import { sharedService, type TestService } from '../support/service.ts';

/** Time for a completion on a busy machine. */
const AMPLE_MS = 60_000;
const PROMPT = 'ready> ';
const TAB = '\t';
const CTRL_C = '\x03';

/** Commands that start each shell with the line that its help names, in a home without personal settings. */
const SHELLS: Readonly<
  Record<string, { readonly command: readonly string[]; readonly files: Record<string, string> }>
> = {
  bash: {
    command: ['bash', '--rcfile', 'bashrc', '-i'],
    files: { bashrc: `PS1='${PROMPT}'\nsource <(cloche completion bash)\n` },
  },
  zsh: {
    command: ['zsh', '-i'],
    files: {
      '.zshrc': `autoload -Uz compinit; compinit -u -D\nPS1='${PROMPT}'\nsource <(cloche completion zsh)\n`,
    },
  },
  fish: {
    command: ['fish', '-i'],
    files: {
      '.config/fish/config.fish': `function fish_prompt; echo -n '${PROMPT}'; end\nset -g fish_greeting\ncloche completion fish | source\n`,
    },
  },
};

let service: TestService;
let sandboxId: string;
before(async () => {
  service = await sharedService();
  sandboxId = (await service.api.readySandbox()).id;
});
after(() => service?.close());

const isInstalled = (shell: string) => execaSync('sh', ['-c', `command -v ${shell}`], { reject: false }).exitCode === 0;

/** Opens a shell in which `cloche` completes as it is, and otherwise prints its arguments. */
function openShell(shell: string, url: string, apiKey: string): { terminal: TerminalProcess; folder: string } {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-completion-'));
  const { command = [], files = {} } = SHELLS[shell] ?? {};
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  const real = resolve('packages/clients/cli/bin/cloche.mjs');
  writeFileSync(
    join(bin, 'cloche'),
    `#!/bin/sh\n[ "$1" = completion ] && exec node ${real} "$@"\nIFS='|'; echo "ran: $*"\n`,
    { mode: 0o755 },
  );
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(folder, name, '..'), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  writeFileSync(join(folder, 'script-of-mine.py'), '');
  const env = {
    ...process.env,
    PATH: `${bin}:${resolve('node_modules/.bin')}:${process.env.PATH}`,
    HOME: folder,
    ZDOTDIR: folder,
    XDG_CONFIG_HOME: join(folder, '.config'),
    XDG_DATA_HOME: folder,
    CLOCHE_URL: url,
    CLOCHE_API_KEY: apiKey,
    ...compileCache(),
  };
  const script = 'cd "$1"; shift; exec "$@"';
  return {
    terminal: new TerminalProcess(['sh', '-c', script, 'sh', folder, ...command], { rows: 40, cols: 120, env }),
    folder,
  };
}

describe('completion', { concurrency: true }, () => {
  for (const shell of Object.keys(SHELLS)) {
    const skip = isInstalled(shell) ? false : `${shell} is not installed: apt install ${shell}`;

    it(`in ${shell} knows commands, options, values, ids and files`, { skip }, async () => {
      const { terminal, folder } = openShell(shell, service.url, service.apiKey);
      try {
        const id = sandboxId;
        let prompts = 1;
        const isReady = () =>
          terminal.shows(new RegExp(`(?:${PROMPT}[^]*){${prompts}}`), AMPLE_MS).then(() => {
            prompts += 1;
          });
        await isReady();
        for (const [typed, ran] of [
          [`sandb${TAB}get x`, 'sandbox|get|x'],
          [`sandbox cre${TAB}--no-w${TAB}`, 'sandbox|create|--no-wait'],
          [`run -l pyth${TAB}-`, 'run|-l|python|-'],
          [`run --network deny-${TAB}`, 'run|--network|deny-all'],
          [`shell ${id.slice(0, 12)}${TAB}`, `shell|${id}`],
          [`cp ${id.slice(0, 12)}${TAB}file .`, `cp|${id}:file|.`],
          [`run script-of${TAB}`, 'run|script-of-mine.py'],
        ] as const) {
          terminal.type(`cloche ${typed}\r`);
          await terminal.shows(new RegExp(`ran: ${ran.replace(/[|.]/g, '\\$&')}\\s*\\r`), AMPLE_MS);
          await isReady();
        }
        terminal.type(`cloche sandbox ${TAB}${TAB}`);
        // Each of several candidates is listed; zsh and fish also say what it is.
        await terminal.shows(/\bttl\b/, AMPLE_MS);
        if (shell !== 'bash') await terminal.shows(/remaining lifetime/, AMPLE_MS);
        terminal.type(CTRL_C);
      } finally {
        await terminal.close();
        rmSync(folder, { recursive: true, force: true });
      }
    });

    it(`completion in ${shell} prints nothing where the service is away`, { skip }, async () => {
      const { terminal, folder } = openShell(shell, 'http://127.0.0.1:9', 'clk_none');
      try {
        await terminal.shows(PROMPT, AMPLE_MS);
        terminal.type(`cloche shell sbx_${TAB}end\r`);
        await terminal.shows(/ran: shell\|sbx_end\s*\r/, AMPLE_MS);
        assert.doesNotMatch(terminal.text, /error|cannot be reached/);
      } finally {
        await terminal.close();
        rmSync(folder, { recursive: true, force: true });
      }
    });
  }
});
