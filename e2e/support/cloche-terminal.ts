import { TerminalProcess } from '@cloche/testkit/terminal-process';
import type { TestService } from './service.ts';

/** Runs `cloche` with `args` in a terminal, then prints its exit code and the settings of the terminal. */
export function openCloche(
  service: TestService,
  args: readonly string[],
  size: { readonly rows: number; readonly cols: number },
): TerminalProcess {
  const script = 'node_modules/.bin/cloche "$@"; echo "ended with $?"; stty -a';
  // The history of a repl stays with the service.
  const env = {
    ...process.env,
    CLOCHE_URL: service.url,
    CLOCHE_API_KEY: service.apiKey,
    XDG_STATE_HOME: service.dataDir,
  };
  return new TerminalProcess(['sh', '-c', script, 'sh', ...args], { ...size, env });
}
