import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { link, mkdir, rename, rm } from 'node:fs/promises';
import { posix } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Output } from '../terminal/terminal.ts';
import { explainTransfer } from './explain-transfer.ts';

export interface SaveOptions {
  /** Whether to replace an existing file. */
  readonly replace: boolean;
  readonly signal?: AbortSignal;
}

/**
 * Writes a file that appears when all data has arrived, and creates missing directories. A path in bytes may be invalid
 * UTF-8.
 * @throws CliError if the file cannot be written or the download breaks off; no partial file is left
 */
export async function saveFile(
  place: string | Buffer,
  chunks: AsyncIterable<Uint8Array>,
  { replace, signal = new AbortController().signal }: SaveOptions,
): Promise<void> {
  const path = Buffer.from(place);
  // One character per byte, so that the path functions work with any name.
  const folder = Buffer.from(posix.dirname(path.toString('latin1')), 'latin1');
  // Has its own short name: a suffix could exceed the length limit of a long name.
  const partial = Buffer.concat([folder, Buffer.from(`/.cloche-${randomBytes(6).toString('hex')}.part`)]);
  try {
    await mkdir(folder, { recursive: true });
    // Opened before the transfer starts: a file that `pipeline` opens later could appear after its removal below.
    const file = createWriteStream(partial, { flags: 'wx' });
    file.on('error', () => undefined);
    await once(file, 'open');
    await pipeline(chunks, file, { signal });
    await (replace ? rename(partial, path) : link(partial, path));
  } catch (error) {
    signal.throwIfAborted();
    throw explainTransfer(error, path.toString());
  } finally {
    await rm(partial, { force: true }).catch(() => undefined);
  }
}

/**
 * Writes everything to standard output, which stays open; on a terminal, only text and colours. @throws CliError as
 * `saveFile` does
 */
export async function writeOut(chunks: AsyncIterable<Uint8Array>, out: Output, signal: AbortSignal): Promise<void> {
  try {
    if (out.isTerminal) await showText(chunks, out);
    else await pipeline(chunks, process.stdout, { end: false, signal });
  } catch (error) {
    signal.throwIfAborted();
    throw explainTransfer(error, 'Standard output');
  }
}

async function showText(chunks: AsyncIterable<Uint8Array>, out: Output): Promise<void> {
  const decoder = new TextDecoder();
  for await (const chunk of chunks) await out.program(decoder.decode(chunk, { stream: true }));
}
