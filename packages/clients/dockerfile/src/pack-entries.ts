import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream';
import { createGzip } from 'node:zlib';
import { TAR_BLOCK_BYTES, tarPadding, writeTarHeader } from '@cloche/archive';
import type { CopiedEntry } from './build-context.ts';

const FLAGS = { file: '0', symlink: '2', directory: '5' } as const;

/**
 * Modification time of everything that is packed, in seconds since the epoch: 2000-01-01. With the real times, the
 * archive of a fresh checkout would differ, and no step after it could be taken from the cache.
 */
const MODIFIED_AT = 946_684_800;

/** Streams entries as a tar.gz, by paths relative to `/`. Equal entries give equal bytes. */
export function packEntries(entries: Iterable<CopiedEntry>): AsyncIterable<Buffer> {
  // A failure of the source reaches the reader by the stream that it destroys.
  return pipeline(tar(entries), createGzip(), () => undefined);
}

async function* tar(entries: Iterable<CopiedEntry>): AsyncGenerator<Buffer, void> {
  for (const { path, type, mode, sizeBytes, localPath, content, target = '' } of entries) {
    const name = latin1(type === 'directory' ? `${path.slice(1)}/` : path.slice(1));
    const linkName = latin1(target);
    yield writeTarHeader({ name, flag: FLAGS[type], mode, size: sizeBytes, mtime: MODIFIED_AT, linkName });
    if (type !== 'file') continue;
    if (content) yield content;
    else if (localPath !== undefined && sizeBytes > 0) yield* readExactly(localPath, sizeBytes);
    yield Buffer.alloc(tarPadding(sizeBytes));
  }
  yield Buffer.alloc(2 * TAR_BLOCK_BYTES);
}

/** Reads the size that the header states, even if the file grows meanwhile. Throws if it has shrunk. */
async function* readExactly(file: string, sizeBytes: number): AsyncGenerator<Buffer, void> {
  let left = sizeBytes;
  for await (const chunk of createReadStream(file, { end: sizeBytes - 1 }) as AsyncIterable<Buffer>) {
    left -= chunk.length;
    yield chunk;
  }
  if (left > 0) throw new Error(`${file} became shorter while it was read; build again.`);
}

/** Returns the UTF-8 bytes of a name, one character for each, as tar headers take them. */
function latin1(name: string): string {
  return Buffer.from(name).toString('latin1');
}
