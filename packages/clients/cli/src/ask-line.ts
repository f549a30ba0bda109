import { createInterface } from 'node:readline/promises';
import { InterruptedError, isTerminalGone } from './interruption.ts';

/**
 * Asks for a line on the terminal. Returns undefined at the end of the input.
 * @throws {InterruptedError} at Ctrl-C, or if the window of the terminal was closed
 */
export async function askLine(
  question: string,
  options: { readonly output: NodeJS.WritableStream; readonly terminal?: boolean },
): Promise<string | undefined> {
  const lines = createInterface({ input: process.stdin, ...options });
  const canceled = new AbortController();
  // Restoring the mode of a terminal fails after its window was closed.
  lines.on('error', () => undefined);
  lines.once('SIGINT', () => canceled.abort(new InterruptedError('SIGINT')));
  lines.once('close', () => canceled.abort());
  try {
    return await lines.question(question, { signal: canceled.signal });
  } catch {
    if (canceled.signal.reason instanceof InterruptedError) throw canceled.signal.reason;
    if (isTerminalGone()) throw new InterruptedError('SIGHUP');
    return undefined;
  } finally {
    lines.close();
  }
}
