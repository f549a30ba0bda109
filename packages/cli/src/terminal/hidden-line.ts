import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import type { Terminal } from './terminal.ts';

/** Asks for a line without showing what is typed. Returns an empty text if the question is interrupted. */
export async function askHidden(prompt: string, output: Terminal['err']): Promise<string> {
  await output.write(prompt);
  const unseen = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output: unseen, terminal: true });
  try {
    const canceled = new AbortController();
    lines.once('SIGINT', () => canceled.abort());
    return await lines.question('', { signal: canceled.signal }).catch(() => '');
  } finally {
    lines.close();
    await output.line('');
  }
}
