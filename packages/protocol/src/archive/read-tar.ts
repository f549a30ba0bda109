import { type ArchiveEntry, type InvalidArchiveError, invalidArchive } from './archive-entry.ts';
import { refusedEntry } from './entry-name.ts';
import { InvalidTarError, readTarHeader, TAR_BLOCK_BYTES, type TarHeader, tarPadding } from './tar-header.ts';

/** Limit of a record about the next entry, for names and numbers that do not fit a header. */
const MAX_RECORD_BYTES = 64 * 1024;

/** Files up to this size are read whole, because a file takes many times as long as a stream of its own. */
const SMALL_BYTES = 64 * 1024;

/** Limit of what follows the end of an archive. Writers fill up a last record, which may have up to 16 MiB. */
const MAX_PADDING_BYTES = 16 * 1024 * 1024;

const TYPES: Readonly<Record<string, ArchiveEntry['type']>> = {
  '0': 'file',
  '7': 'file',
  '1': 'hardlink',
  '2': 'symlink',
  '5': 'directory',
};

/** Values from the records before a header, which replace those of the header. */
interface Override {
  name?: string;
  linkName?: string;
  size?: number;
  mtime?: number;
  uid?: number;
  gid?: number;
  isSparse?: boolean;
}

export interface ReadTarOptions {
  /** Called with each device, pipe and the like, which is then left out. By default it is refused. */
  readonly onSpecial?: (name: string) => void;
}

/**
 * Yields the entries of a tar archive. Throws `bad_archive`. Our own code, because libraries decode names as UTF-8 and
 * set no bound on records (docs/adr/0008-tar-is-read-here.md).
 */
export async function* readTar(
  source: AsyncIterable<Uint8Array>,
  { onSpecial }: ReadTarOptions = {},
): AsyncGenerator<ArchiveEntry, void> {
  const bytes = new ByteReader(source);
  let override: Override = {};
  for (;;) {
    const header = await nextHeader(bytes);
    if (!header) {
      if ((await bytes.skipUpTo(MAX_PADDING_BYTES + 1)) <= MAX_PADDING_BYTES) return;
      throw invalidArchive('it has more than padding after its end');
    }
    if ('LKxg'.includes(header.flag)) {
      override = { ...override, ...(await readRecord(bytes, header)) };
      continue;
    }
    const { name, linkName, mtime, size, isSparse, uid, gid } = {
      isSparse: false,
      uid: 0,
      gid: 0,
      ...header,
      ...override,
    };
    override = {};
    if (isSparse || header.flag === 'S')
      throw refusedEntry(name, 'is a sparse file; create the archive without --sparse');
    if (onSpecial && isSpecial(header)) {
      onSpecial(name);
      await bytes.skip(header.size + tarPadding(header.size));
      continue;
    }
    const type = typeOf(header, name);
    const length = type === 'file' ? size : 0;
    const contentOffset = bytes.position;
    const mode = header.mode & 0o7777;
    const small = length <= SMALL_BYTES ? await bytes.whole(length) : undefined;
    const content = small ? once(small) : bytes.take(length);
    const entry = { name, type, mode, mtime, target: linkName, sizeBytes: length, uid, gid, contentOffset };
    yield { ...entry, content, bytes: small };
    // Skip the unread content and the padding of the last block.
    await bytes.skip(contentOffset + length + tarPadding(length) - bytes.position);
    if (type !== 'file') await bytes.skip(header.size + tarPadding(header.size));
  }
}

async function nextHeader(bytes: ByteReader): Promise<TarHeader | undefined> {
  const block = await bytes.exactly(TAR_BLOCK_BYTES);
  // Some writers omit the zeros at the end.
  if (!block) return undefined;
  try {
    return readTarHeader(block);
  } catch (error) {
    if (error instanceof InvalidTarError) throw invalidArchive(`it is not a valid tar: ${error.message}`);
    throw error;
  }
}

/** Returns whether the entry is a device or a pipe. */
function isSpecial({ flag }: TarHeader): boolean {
  return flag === '3' || flag === '4' || flag === '6';
}

function typeOf({ flag }: TarHeader, name: string): ArchiveEntry['type'] {
  // Before POSIX, a directory was a file whose name ends with a slash.
  if (flag === '0' && name.endsWith('/')) return 'directory';
  const type = TYPES[flag];
  if (type) return type;
  const what = flag === '3' || flag === '4' ? 'a device' : flag === '6' ? 'a pipe' : `of the kind "${flag}"`;
  throw refusedEntry(name, `is ${what}`);
}

async function readRecord(bytes: ByteReader, { flag, size }: TarHeader): Promise<Override> {
  if (size > MAX_RECORD_BYTES) throw invalidArchive('it has an extended header that is too large');
  const record = await bytes.exactly(size);
  await bytes.skip(tarPadding(size));
  if (!record) throw invalidArchive('it ends before its last entry is complete');
  const value = record.toString('latin1');
  if (flag === 'L') return { name: untilNul(value) };
  if (flag === 'K') return { linkName: untilNul(value) };
  // Global records describe the archive, not an entry.
  return flag === 'g' ? {} : readPax(value);
}

/** Parses pax records: lines such as `12 path=name\n` that start with their own length. */
function readPax(record: string): Override {
  const override: Override = {};
  for (let at = 0; at < record.length; ) {
    const [, digits = ''] = /^(\d{1,9}) /.exec(record.slice(at, at + 10)) ?? [];
    const line = record.slice(at + digits.length + 1, at + Number(digits) - 1);
    const equals = line.indexOf('=');
    if (digits === '' || Number(digits) > record.length - at || equals === -1) {
      throw invalidArchive('it has a malformed pax header');
    }
    const [key, value] = [line.slice(0, equals), line.slice(equals + 1)];
    if (key === 'path') override.name = value;
    else if (key === 'linkpath') override.linkName = value;
    else if (key === 'size') override.size = Number(value);
    else if (key === 'mtime') override.mtime = Number(value) || 0;
    else if (key === 'uid') override.uid = Number(value);
    else if (key === 'gid') override.gid = Number(value);
    else if (key.startsWith('GNU.sparse.')) override.isSparse = true;
    at += Number(digits);
  }
  if (override.size !== undefined && !Number.isSafeInteger(override.size))
    throw invalidArchive('it has an invalid size in a pax header');
  return override;
}

function untilNul(value: string): string {
  const end = value.indexOf('\0');
  return end === -1 ? value : value.slice(0, end);
}

/** Reads a stream by lengths. */
class ByteReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #rest: Buffer = Buffer.alloc(0);
  /** Bytes that were read so far. */
  position = 0;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#chunks = source[Symbol.asyncIterator]();
  }

  /** Returns undefined at the end of the stream. Throws `bad_archive` when the stream ends within the bytes. */
  async exactly(length: number): Promise<Buffer | undefined> {
    if (length <= this.#rest.length) return this.#shift(length);
    const parts: Buffer[] = [];
    for await (const part of this.#upTo(length)) parts.push(part);
    const bytes = Buffer.concat(parts);
    if (bytes.length === 0 && length > 0) return undefined;
    if (bytes.length < length) throw brokenOff();
    return bytes;
  }

  /** Throws `bad_archive` when the stream ends before. */
  async whole(length: number): Promise<Buffer> {
    const bytes = await this.exactly(length);
    if (!bytes) throw brokenOff();
    return bytes;
  }

  /** Returns the next `length` bytes. A second iteration continues where the first one stopped. */
  take(length: number): AsyncIterable<Buffer> {
    let left = length;
    const read = async () => {
      if (left === 0) return undefined;
      const part = await this.#next(left);
      if (!part) throw brokenOff();
      left -= part.length;
      return part;
    };
    return {
      async *[Symbol.asyncIterator]() {
        for (let part = await read(); part; part = await read()) yield part;
      },
    };
  }

  async skip(length: number): Promise<void> {
    if (length <= this.#rest.length) this.#shift(length);
    else await this.#skipOver(length);
  }

  async #skipOver(length: number): Promise<void> {
    for await (const _ of this.take(length));
  }

  /** Skips at most `length` bytes and returns how many there were. */
  async skipUpTo(length: number): Promise<number> {
    let skipped = 0;
    for await (const part of this.#upTo(length)) skipped += part.length;
    return skipped;
  }

  async *#upTo(length: number): AsyncGenerator<Buffer, void> {
    for (let left = length; left > 0; ) {
      const part = await this.#next(left);
      if (!part) return;
      left -= part.length;
      yield part;
    }
  }

  async #next(most: number): Promise<Buffer | undefined> {
    while (this.#rest.length === 0) {
      const { done, value } = await this.#chunks.next();
      if (done) return undefined;
      this.#rest = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    }
    return this.#shift(most);
  }

  /** Returns at most `most` of the bytes that have arrived. */
  #shift(most: number): Buffer {
    const part = this.#rest.subarray(0, most);
    this.#rest = this.#rest.subarray(part.length);
    this.position += part.length;
    return part;
  }
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer, void> {
  if (bytes.length > 0) yield bytes;
}

function brokenOff(): InvalidArchiveError {
  return invalidArchive('it ends before its last entry is complete');
}
