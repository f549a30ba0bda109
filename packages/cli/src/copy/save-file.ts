import { randomBytes } from 'node:crypto';
import { link, mkdir, open, rename, rm } from 'node:fs/promises';
import { posix } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { explainTransfer } from './explain-transfer.ts';

export interface SaveOptions {
  /** Whether what has that name may go. */
  readonly replace: boolean;
  readonly signal?: AbortSignal;
}

/**
 * Writes a file that appears when all of it has arrived, and the folders above it. Bytes for a name that is not UTF-8.
 * @throws CliError where the file cannot be written, or the download broke off; nothing is left then
 */
export async function saveFile(
  place: string | Buffer,
  chunks: AsyncIterable<Uint8Array>,
  { replace, signal = new AbortController().signal }: SaveOptions,
): Promise<void> {
  const path = Buffer.from(place);
  // One character a byte, so that the usual functions on paths work.
  const folder = Buffer.from(posix.dirname(path.toString('latin1')), 'latin1');
  // Named by itself: beside a name of full length there is no room for more.
  const partial = Buffer.concat([folder, Buffer.from(`/.cloche-${randomBytes(6).toString('hex')}.part`)]);
  try {
    await mkdir(folder, { recursive: true });
    // Opened before anything can go wrong with the bytes: else it might appear after it was removed.
    const file = await open(partial, 'wx');
    await pipeline(chunks, file.createWriteStream(), { signal });
    await (replace ? rename(partial, path) : link(partial, path));
  } catch (error) {
    signal.throwIfAborted();
    throw explainTransfer(error, path.toString());
  } finally {
    await rm(partial, { force: true }).catch(() => undefined);
  }
}

/** Passes everything on to standard output, which stays open. @throws CliError as `saveFile` does */
export async function writeOut(chunks: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
  try {
    await pipeline(chunks, process.stdout, { end: false, signal });
  } catch (error) {
    signal.throwIfAborted();
    throw explainTransfer(error, 'Standard output');
  }
}
