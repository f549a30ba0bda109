import { InvalidArchiveError } from '@cloche/archive';
import { CliError } from '../cli-error.ts';
import { InterruptedError } from '../interruption.ts';

/** Returns an error whose message tells the user why a transfer to `place` failed. */
export function explainTransfer(error: unknown, place: string): unknown {
  if (error instanceof CliError) return error;
  if (error instanceof InvalidArchiveError) {
    return new CliError(`Nothing was copied to ${place}. The archive is refused: ${error.message}.`);
  }
  const { code, syscall, message } = error as NodeJS.ErrnoException;
  if (code === 'EPIPE') return new InterruptedError('SIGPIPE');
  if (code === 'EEXIST')
    return new CliError(`${place} already exists; name another file, or move the existing one away.`);
  if (syscall !== undefined && code !== undefined) {
    // Node.js's message names the temporary file, so only its description is kept.
    const why = /^[A-Z0-9]+: ([^,]+)/.exec(message)?.[1] ?? code;
    return new CliError(`${place} cannot be written: ${why}.`);
  }
  // `fetch` throws a TypeError when a connection closes too early.
  if (error instanceof TypeError) return new CliError('The download broke off before its end; try again.');
  return error;
}
