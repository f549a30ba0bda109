import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { InterruptedError } from './interruption.ts';
import type { Terminal } from './terminal/terminal.ts';

/**
 * Asks for a line without showing what is typed. Returns an empty text at the end of the input.
 * @throws {InterruptedError}
 */
export async function askHidden(prompt: string, output: Terminal['err']): Promise<string> {
  await output.write(prompt);
  const unseen = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output: unseen, terminal: true });
  try {
    const canceled = new AbortController();
    // The mode of a terminal whose window is closed cannot be set back.
    lines.on('error', () => undefined);
    lines.once('SIGINT', () => canceled.abort(new InterruptedError('SIGINT')));
    lines.once('close', () => canceled.abort());
    return await lines.question('', { signal: canceled.signal }).catch(() => {
      if (canceled.signal.reason instanceof InterruptedError) throw canceled.signal.reason;
      return '';
    });
  } finally {
    lines.close();
    await output.write('\n');
  }
}
