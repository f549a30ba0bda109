import { type ArchiveEntry, invalidArchive } from './archive-entry.ts';
import type { ByteReader } from './byte-reader.ts';
import { refusedEntry } from './entry-name.ts';
import { InvalidTarError, readTarHeader, TAR_BLOCK_BYTES, type TarHeader, tarPadding } from './tar-header.ts';
import { readPax, type TarOverride, untilNul } from './tar-records.ts';

/** Limit of a record about the next entry, for names and numbers that do not fit a header. */
const MAX_RECORD_BYTES = 64 * 1024;

/** Files up to this size are read whole, because a file takes many times as long as a stream of its own. */
const SMALL_BYTES = 64 * 1024;

const TYPES: Readonly<Record<string, ArchiveEntry['type']>> = {
  '0': 'file',
  '7': 'file',
  '1': 'hardlink',
  '2': 'symlink',
  '5': 'directory',
};

const NO_OVERRIDE: TarOverride = {};

export interface ReadTarOptions {
  /** Called with each device, pipe and the like, which is then left out. By default it is refused. */
  readonly onSpecial?: (name: string) => void;
}

/** Parses the entries of a tar from bytes that have arrived, without a wait between two entries. */
export class TarParser {
  readonly #bytes: ByteReader;
  readonly #onSpecial: ReadTarOptions['onSpecial'];
  #override = NO_OVERRIDE;
  /** Position after the content that was given out as a stream, with its padding. */
  #contentEnd = 0;

  constructor(bytes: ByteReader, { onSpecial }: ReadTarOptions) {
    this.#bytes = bytes;
    this.#onSpecial = onSpecial;
  }

  /**
   * Returns the next entry, the number of bytes that have to arrive before it can be parsed, or `end`. Throws
   * `bad_archive`.
   */
  next(): ArchiveEntry | number | 'end' {
    const bytes = this.#bytes;
    // Skips the unread rest of the last content.
    if (this.#contentEnd > bytes.position) bytes.skip(this.#contentEnd - bytes.position);
    for (;;) {
      if (!bytes.has(TAR_BLOCK_BYTES)) return TAR_BLOCK_BYTES;
      const header = headerIn(bytes.peek(TAR_BLOCK_BYTES));
      if (!header) return 'end';
      const next = isRecord(header) ? this.#readRecord(header) : this.#readEntry(header);
      if (next !== undefined) return next;
    }
  }

  /** Keeps what a record says about the next entry. Returns the number of bytes that have to arrive for it. */
  #readRecord(header: TarHeader): number | undefined {
    const { flag, size } = header;
    if (size > MAX_RECORD_BYTES) throw invalidArchive('it has an extended header that is too large');
    const whole = TAR_BLOCK_BYTES + size + tarPadding(size);
    if (!this.#bytes.has(whole)) return whole;
    this.#bytes.skip(TAR_BLOCK_BYTES);
    const value = this.#bytes.read(size).toString('latin1');
    this.#bytes.skip(tarPadding(size));
    if (flag === 'L') this.#override = { ...this.#override, name: untilNul(value) };
    else if (flag === 'K') this.#override = { ...this.#override, linkName: untilNul(value) };
    // Global records describe the archive, not an entry.
    else if (flag === 'x') this.#override = { ...this.#override, ...readPax(value) };
    return undefined;
  }

  /** Returns the entry of a header, or the number of bytes that have to arrive for it; undefined if it is left out. */
  #readEntry(header: TarHeader): ArchiveEntry | number | undefined {
    const bytes = this.#bytes;
    const described = this.#override === NO_OVERRIDE ? header : { ...header, ...this.#override };
    const { name, linkName, mtime, size, uid = 0, gid = 0 } = described;
    const { xattrs } = this.#override;
    if (this.#override.isSparse || header.flag === 'S') {
      throw refusedEntry(name, 'is a sparse file; create the archive without --sparse');
    }
    if (this.#onSpecial && isSpecial(header)) {
      this.#override = NO_OVERRIDE;
      this.#onSpecial(name);
      bytes.skip(TAR_BLOCK_BYTES + header.size + tarPadding(header.size));
      return undefined;
    }
    const type = typeOf(header, name);
    const length = type === 'file' ? size : 0;
    const isSmall = length <= SMALL_BYTES;
    const whole = TAR_BLOCK_BYTES + length + tarPadding(length);
    if (isSmall && !bytes.has(whole)) return whole;
    this.#override = NO_OVERRIDE;
    bytes.skip(TAR_BLOCK_BYTES);
    const contentOffset = bytes.position;
    const small = isSmall ? bytes.read(length) : undefined;
    const content = small ? { [Symbol.asyncIterator]: () => once(small) } : bytes.take(length);
    if (isSmall) bytes.skip(tarPadding(length));
    else this.#contentEnd = contentOffset + length + tarPadding(length);
    if (type !== 'file' && header.size > 0) bytes.skip(header.size + tarPadding(header.size));
    const mode = header.mode & 0o7777;
    return {
      name,
      type,
      mode,
      mtime,
      target: linkName,
      sizeBytes: length,
      uid,
      gid,
      xattrs,
      contentOffset,
      content,
      bytes: small,
    };
  }
}

function headerIn(block: Buffer): TarHeader | undefined {
  try {
    return readTarHeader(block);
  } catch (error) {
    if (error instanceof InvalidTarError) throw invalidArchive(`it is not a valid tar: ${error.message}`);
    throw error;
  }
}

function isRecord({ flag }: TarHeader): boolean {
  return flag === 'L' || flag === 'K' || flag === 'x' || flag === 'g';
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

async function* once(bytes: Buffer): AsyncGenerator<Buffer, void> {
  if (bytes.length > 0) yield bytes;
}
