import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { type ArchiveEntry, invalidArchive } from '@cloche/protocol';
import type { Entry, ZipFile } from 'yauzl';

const FILE_TYPE = 0o170000;
const DIRECTORY = 0o040000;
const SYMLINK = 0o120000;
const REGULAR = 0o100000;
const MADE_ON_UNIX = 3;
const MAX_LINK_BYTES = 4096;

/** Yields the entries of the zip archive in the file `fd`, which stays open. Throws `bad_archive`. */
export async function* readZip(fd: number): AsyncGenerator<ArchiveEntry, void> {
  // The ZipFile is not closed, because closing it would close `fd`, which belongs to the caller.
  const zip = await open(fd);
  for (let entry = await next(zip); entry; entry = await next(zip)) yield await describe(zip, entry);
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
    return { ...common, target, content: nothing() };
  }
  const content = type === 'file' ? openOnRead(() => contentOf(zip, entry)) : nothing();
  return { ...common, target: '', content };
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

async function* openOnRead(open: () => Promise<Readable>): AsyncGenerator<Buffer, void> {
  try {
    for await (const chunk of await open()) yield chunk as Buffer;
  } catch (error) {
    throw broken(error);
  }
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
