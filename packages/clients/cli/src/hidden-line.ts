import { Writable } from 'node:stream';
import { askLine } from './ask-line.ts';
import type { Terminal } from './terminal/terminal.ts';

/**
 * Asks for a line without showing what is typed. Returns an empty text at the end of the input.
 * @throws {InterruptedError}
 */
export async function askHidden(prompt: string, output: Terminal['err']): Promise<string> {
  await output.write(prompt);
  const unseen = new Writable({ write: (_chunk, _encoding, done) => done() });
  try {
    return (await askLine('', { output: unseen, terminal: true })) ?? '';
  } finally {
    await output.write('\n');
  }
}
