import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { link, mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';

/**
 * Returns the bytes of a file on the disk for an upload. The file is opened when an attempt reads it, and read while it is
 * sent, so an upload of it is retried.
 *
 * ```ts
 * await sandbox.files.write('data.csv', fileBytes('exports/data.csv'));
 * ```
 */
export function fileBytes(path: string): () => AsyncIterable<Uint8Array> {
  return async function* () {
    yield* createReadStream(path) as AsyncIterable<Uint8Array>;
  };
}

export interface SaveFileOptions {
  /** Whether to replace an existing file. Default: true. */
  replace?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * Writes bytes to a file on the disk. The file appears when all bytes have arrived; a download that fails or is aborted
 * leaves nothing. Creates missing directories.
 *
 * ```ts
 * await saveFile('results/plot.png', (await sandbox.files.stream('plot.png')).body);
 * ```
 *
 * @throws an error of Node, such as `EEXIST` without `replace`, or the error of the download
 */
export async function saveFile(
  path: string,
  bytes: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>,
  { replace = true, signal }: SaveFileOptions = {},
): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const partial = join(dirname(path), `.cloche-${randomBytes(6).toString('hex')}.part`);
  try {
    const file = createWriteStream(partial, { flags: 'wx' });
    // `once` and `pipeline` report an error, each for its time.
    file.on('error', () => undefined);
    await once(file, 'open');
    await pipeline(bytes as AsyncIterable<Uint8Array>, file, signal ? { signal } : {});
    await (replace ? rename(partial, path) : link(partial, path));
  } finally {
    await rm(partial, { force: true });
  }
}
