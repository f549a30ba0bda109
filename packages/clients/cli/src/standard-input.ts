import { hangUp, InterruptedError, isHangUp, isTerminalGone } from './interruption.ts';

/**
 * Reads the standard input to its end. What a person was typing when the window closed is incomplete, so that this is an
 * error.
 * @throws {InterruptedError} if the standard input is a terminal whose window was closed
 */
export async function* standardInput(): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of process.stdin) yield chunk as Buffer;
  } catch (error) {
    if (!isHangUp(error, process.stdin)) throw error;
  }
  if (!isTerminalGone()) return;
  hangUp();
  throw new InterruptedError('SIGHUP');
}
