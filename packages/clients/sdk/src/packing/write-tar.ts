import { closeSync, fstatSync, openSync, read, readSync, type Stats } from 'node:fs';
import { promisify } from 'node:util';
import { TAR_BLOCK_BYTES, tarPadding, writeTarHeader } from '@cloche/archive/tar-header';
import type { PackingNote } from './archive-source.ts';
import { type Entry, READING } from './find-entries.ts';
import { packingFailed, pathIn, shown } from './packed-path.ts';
import { TimeSlice } from './time-slice.ts';

const CHUNK_BYTES = 256 * 1024;
const TYPE_FLAGS = { file: '0', link: '2', directory: '5' } as const;

const readAsync = promisify(read);

/** Tells what has happened to a file since the entries were found. */
type OnNote = (note: PackingNote) => void;

/**
 * Yields a tar of the entries, in chunks of equal size. Entries that did not change become the same bytes each time.
 * @throws {ClocheError} `packing_failed` if a file shrinks while it is read, or cannot be read any more.
 */
export async function* writeTar(
  root: Buffer,
  entries: readonly Entry[],
  onNote: OnNote,
  signal: AbortSignal | undefined,
): AsyncGenerator<Buffer, void> {
  const chunks = new Chunks();
  const timeSlice = new TimeSlice();
  for (const entry of entries) {
    signal?.throwIfAborted();
    await timeSlice.yieldIfOver();
    if (entry.kind === 'file') yield* fileOf(root, entry, chunks, onNote);
    else yield* chunks.add(headerOf(entry, 0));
  }
  yield* chunks.add(Buffer.alloc(2 * TAR_BLOCK_BYTES));
  yield* chunks.rest();
}

/** Returns the bytes of such a tar, if no file changes. */
export function tarBytesOf(entries: readonly Entry[]): number {
  let bytes = 2 * TAR_BLOCK_BYTES;
  for (const entry of entries) {
    const isLong = entry.name.length > 100 || entry.target.length > 100;
    bytes += isLong ? headerOf(entry, entry.sizeBytes).length : TAR_BLOCK_BYTES;
    bytes += entry.sizeBytes + tarPadding(entry.sizeBytes);
  }
  return bytes;
}

function headerOf({ name, kind, mode, mtimeMs, target }: Entry, size: number): Buffer {
  const path = kind === 'directory' ? `${name}/` : name;
  return writeTarHeader({ name: path, flag: TYPE_FLAGS[kind], mode, size, mtime: mtimeMs / 1000, linkName: target });
}

/** Yields a file as large as it is when it is opened. What is appended later is left out. */
async function* fileOf(root: Buffer, entry: Entry, chunks: Chunks, onNote: OnNote): AsyncGenerator<Buffer, void> {
  const path = shown(entry.name);
  const file = openAsFound(pathIn(root, entry.name), path);
  if (file === undefined) {
    onNote({ path, reason: 'removed' });
    return;
  }
  try {
    const { size, mtimeMs } = file.stat;
    yield* chunks.add(headerOf({ ...entry, mtimeMs }, size));
    for (let at = 0; at < size; ) {
      const room = chunks.room(size - at);
      const bytesRead = await readInto(file.fd, room, at, size > CHUNK_BYTES);
      if (bytesRead === 0)
        throw packingFailed(`${JSON.stringify(path)} became shorter while it was read; run it again`);
      yield* chunks.fill(bytesRead);
      at += bytesRead;
    }
    yield* chunks.add(Buffer.alloc(tarPadding(size)));
    const after = fstatSync(file.fd);
    if (after.mtimeMs !== mtimeMs || after.size !== size) onNote({ path, reason: 'changed' });
  } finally {
    closeSync(file.fd);
  }
}

/** Returns undefined if the path is not a file any more. */
function openAsFound(path: Buffer, name: string): { fd: number; stat: Stats } | undefined {
  try {
    const fd = openSync(path, READING);
    const stat = fstatSync(fd);
    if (stat.isFile()) return { fd, stat };
    closeSync(fd);
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ELOOP' || code === 'ENXIO') return undefined;
    throw packingFailed(`${JSON.stringify(name)} cannot be read (${code})`, error);
  }
}

/** Reads at once what is small: handing it to another thread takes longer than reading it. */
async function readInto(fd: number, room: Buffer, position: number, isLarge: boolean): Promise<number> {
  if (!isLarge) return readSync(fd, room, 0, room.length, position);
  return (await readAsync(fd, room, 0, room.length, position)).bytesRead;
}

/** Collects bytes in chunks of equal size, so that small files do not become small writes. */
class Chunks {
  #chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  #used = 0;

  *add(bytes: Buffer): Generator<Buffer, void> {
    for (let at = 0; at < bytes.length; ) {
      const copied = bytes.copy(this.#chunk, this.#used, at);
      at += copied;
      yield* this.fill(copied);
    }
  }

  /** Returns room for at most `bytes` bytes, to write to before `fill`. Never empty. */
  room(bytes: number): Buffer {
    return this.#chunk.subarray(this.#used, this.#used + bytes);
  }

  /** Counts bytes that were written to `room`. */
  *fill(bytes: number): Generator<Buffer, void> {
    this.#used += bytes;
    if (this.#used < CHUNK_BYTES) return;
    yield* this.rest();
    this.#chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    this.#used = 0;
  }

  *rest(): Generator<Buffer, void> {
    if (this.#used > 0) yield this.#chunk.subarray(0, this.#used);
  }
}
