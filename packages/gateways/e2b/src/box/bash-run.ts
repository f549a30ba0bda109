import type { CodeRunEvent } from '@cloche/contract';
import { onAbort } from '@cloche/node-support';
import type { BoxSession } from './box-session.ts';
import { pathOf } from './box-session.ts';
import { UNTIL_PAUSE } from './paused-box.ts';

export function isBash(language: string | null | undefined): boolean {
  return language?.toLowerCase() === 'bash';
}

/**
 * Runs lines of bash as a command in the user's home, and yields what a run of code would. Each run is a new shell: a
 * variable of one is not there in the next. A failure is an error without a name and with the exit code, as E2B's.
 */
export async function* bashEvents(
  { commands }: BoxSession,
  code: string,
  env: Readonly<Record<string, string>>,
  signal: AbortSignal,
): AsyncGenerator<CodeRunEvent> {
  const command = await commands.start(['/bin/bash', '-c', code], { cwd: pathOf('', 'user'), env: { ...env }, signal });
  using _ = onAbort(signal, () => {
    // Fails if the command or its sandbox has ended.
    command.kill('SIGKILL').catch(() => undefined);
  });
  for await (const event of command.events({ signal, ...UNTIL_PAUSE })) {
    if (event.type === 'log') {
      yield { type: event.data.stream === 'stdout' ? 'stdout' : 'stderr', data: event.data.data };
    }
    if (event.type !== 'exit' || event.data.exitCode === 0) continue;
    const reason = String(event.data.exitCode ?? event.data.signal ?? event.data.status);
    yield { type: 'error', data: { name: '', message: reason } };
  }
}
