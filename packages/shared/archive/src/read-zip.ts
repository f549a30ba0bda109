import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { Entry, LocalFileHeader, ZipFile } from 'yauzl';
import { type ArchiveEntry, invalidArchive } from './archive-entry.ts';
import { refusedEntry } from './entry-name.ts';
import { ZipRegions } from './zip-regions.ts';

const FILE_TYPE = 0o170000;
const DIRECTORY = 0o040000;
const SYMLINK = 0o120000;
const REGULAR = 0o100000;
const MADE_ON_UNIX = 3;
const MAX_LINK_BYTES = 4096;
/** Flag of an entry whose sizes follow its content; its local header has none. */
const SIZES_FOLLOW = 0x08;
/** Value of a size that an extra field has in 64 bits instead. */
const IN_EXTRA_FIELD = 0xffffffff;

/** Yields the entries of the zip archive in the file `fd`, which stays open. Throws `bad_archive`. */
export async function* readZip(fd: number): AsyncGenerator<ArchiveEntry, void> {
  // The ZipFile is not closed, because closing it would close `fd`, which belongs to the caller.
  const zip = await open(fd);
  const regions = new ZipRegions();
  for (let entry = await next(zip); entry; entry = await next(zip)) {
    const described = await describe(zip, entry);
    regions.add(described.name, await regionOf(zip, entry));
    yield described;
  }
  regions.requireApart();
}

async function open(fd: number): Promise<ZipFile> {
  // Loaded on first use, to save memory in an idle sandbox.
  const { fromFd } = await import('yauzl');
  return new Promise((resolve, reject) => {
    // Names are read as bytes, and checked by the code that checks the names of the other formats.
    const options = { lazyEntries: true, autoClose: false, decodeStrings: false, validateEntrySizes: true };
    fromFd(fd, options, (error, zip) => (error ? reject(broken(error)) : resolve(zip)));
  });
}

function next(zip: ZipFile): Promise<Entry | undefined> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void) => {
      zip.off('entry', onEntry).off('end', onEnd).off('error', onError);
      act();
    };
    const onEntry = (entry: Entry) => settle(() => resolve(entry));
    const onEnd = () => settle(() => resolve(undefined));
    const onError = (error: Error) => settle(() => reject(broken(error)));
    zip.on('entry', onEntry).on('end', onEnd).on('error', onError);
    zip.readEntry();
  });
}

/**
 * Returns where the bytes of an entry are. Throws `bad_archive` if the directory at the end of the zip and the header
 * before the content differ: programs that read one of them would unpack something else than those that read the other.
 */
async function regionOf(zip: ZipFile, entry: Entry): Promise<{ start: number; end: number }> {
  const header = await localHeaderOf(zip, entry);
  const name = entry.fileName as unknown as Buffer;
  const hasSizes = (entry.generalPurposeBitFlag & SIZES_FOLLOW) === 0;
  const isSize = (local: number, size: number) => !hasSizes || local === size || local === IN_EXTRA_FIELD;
  const isSame =
    header.fileName.equals(name) &&
    header.compressionMethod === entry.compressionMethod &&
    isSize(header.compressedSize, entry.compressedSize) &&
    isSize(header.uncompressedSize, entry.uncompressedSize);
  if (!isSame) {
    throw refusedEntry(name.toString('latin1'), 'differs between the directory of the zip and its own header');
  }
  return { start: entry.relativeOffsetOfLocalHeader, end: header.fileDataStart + entry.compressedSize };
}

function localHeaderOf(zip: ZipFile, entry: Entry): Promise<LocalFileHeader> {
  return new Promise((resolve, reject) => {
    zip.readLocalFileHeader(entry, (error, header) => (error ? reject(broken(error)) : resolve(header)));
  });
}

async function describe(zip: ZipFile, entry: Entry): Promise<ArchiveEntry> {
  // Without `decodeStrings` the name is a Buffer, although the type says string.
  const name = (entry.fileName as unknown as Buffer).toString('latin1');
  const shown = JSON.stringify(Buffer.from(name, 'latin1').toString());
  if (entry.generalPurposeBitFlag & 1) throw invalidArchive(`${shown} is encrypted`);
  if (name.includes('\\')) throw invalidArchive(`${shown} has a backslash in its name`);
  const isUnix = entry.versionMadeBy >> 8 === MADE_ON_UNIX;
  const attributes = isUnix ? entry.externalFileAttributes >>> 16 : 0;
  const type = typeOf(attributes, name, shown);
  const common = { name, type, mode: attributes & 0o7777, mtime: entry.getLastModDate().getTime() / 1000 };
  if (type === 'symlink') {
    if (entry.uncompressedSize > MAX_LINK_BYTES)
      throw invalidArchive(`${shown} is a link with a target that is too long`);
    const target = (await buffer(await contentOf(zip, entry))).toString('latin1');
    return { ...common, target, sizeBytes: 0, content: nothing() };
  }
  const content = type === 'file' ? openOnRead(() => contentOf(zip, entry), entry.crc32, shown) : nothing();
  return { ...common, target: '', sizeBytes: type === 'file' ? entry.uncompressedSize : 0, content };
}

function typeOf(attributes: number, name: string, shown: string): ArchiveEntry['type'] {
  switch (attributes & FILE_TYPE) {
    case DIRECTORY:
      return 'directory';
    case SYMLINK:
      return 'symlink';
    case REGULAR:
    case 0:
      return name.endsWith('/') ? 'directory' : 'file';
    default:
      throw invalidArchive(`${shown} is a device or a pipe`);
  }
}

async function* openOnRead(
  open: () => Promise<Readable>,
  expected: number,
  shown: string,
): AsyncGenerator<Buffer, void> {
  // Loaded on first use, to save memory in an idle sandbox.
  const { crc32 } = process.getBuiltinModule('node:zlib');
  let sum = 0;
  try {
    for await (const chunk of (await open()) as AsyncIterable<Buffer>) {
      sum = crc32(chunk, sum);
      yield chunk;
    }
  } catch (error) {
    throw broken(error);
  }
  if (sum !== expected) throw invalidArchive(`the content of ${shown} is damaged: its checksum is wrong`);
}

async function* nothing(): AsyncGenerator<Buffer, void> {}

function contentOf(zip: ZipFile, entry: Entry): Promise<Readable> {
  return new Promise((resolve, reject) => {
    zip.openReadStream(entry, (error, stream) => (error ? reject(broken(error)) : resolve(stream)));
  });
}

function broken(error: unknown): unknown {
  if (!(error instanceof Error) || ('code' in error && error.code === 'ENOSPC')) return error;
  return invalidArchive(`it is not a valid zip: ${error.message.slice(0, 200)}`);
}
