/** Decides whether an uploaded archive can be unpacked safely. Runs in a worker thread, so it imports little. */
import { close, createReadStream, openSync, readSync } from 'node:fs';
import { type ArchiveEntry, invalidArchive } from '@cloche/archive/archive-entry';
import { ArchiveTree } from '@cloche/archive/archive-tree';
import { detectArchive, readCompressedTar } from '@cloche/archive/compressed-tar';
import { refusedEntry } from '@cloche/archive/entry-name';
import { readZip } from '@cloche/archive/read-zip';

/** Set-user-id and set-group-id. */
const SET_ID_BITS = 0o6000;
const CHUNK_BYTES = 256 * 1024;

/** Formats by the names of the contract. */
const KINDS = { tar: 'none', 'tar.gz': 'gzip', 'tar.zst': 'zstd', zip: 'zip' } as const;
export type JudgedFormat = keyof typeof KINDS;

export interface ArchiveToJudge {
  /** Path of the whole archive. */
  readonly file: string;
  /** Format that the client states. */
  readonly format: JudgedFormat;
  readonly maxEntries: number;
  /** Limit of the contents of all files together. */
  readonly maxUnpackedBytes: number;
}

/** Measures of an archive that can be unpacked. */
export interface ArchiveMeasures {
  readonly entries: number;
  /** Contents of all files together. */
  readonly unpackedBytes: number;
}

/** Throws InvalidArchiveError, whose message names the entry, for an archive that must not be unpacked. */
export async function judgeArchive({
  file,
  format,
  maxEntries,
  maxUnpackedBytes,
}: ArchiveToJudge): Promise<ArchiveMeasures> {
  const fd = openSync(file, 'r');
  try {
    requireFormat(fd, format);
    const tree = new ArchiveTree(maxEntries);
    let unpackedBytes = 0;
    for await (const entry of entriesOf(fd, file, format)) {
      tree.add(entry);
      requireNoSetId(entry);
      unpackedBytes += entry.sizeBytes;
      if (unpackedBytes > maxUnpackedBytes) throw tooLarge(entry, maxUnpackedBytes);
      // The contents of a zip are checked by reading them. The reader of a tar does that by itself.
      if (format === 'zip') for await (const _ of entry.content);
    }
    return { entries: tree.entries, unpackedBytes };
  } finally {
    // Reads of a zip may still be under way. An error changes nothing for the judgement.
    close(fd, () => undefined);
  }
}

function entriesOf(fd: number, file: string, format: JudgedFormat): AsyncGenerator<ArchiveEntry, void> {
  const kind = KINDS[format];
  if (kind === 'zip') return readZip(fd);
  return readCompressedTar(createReadStream(file, { highWaterMark: CHUNK_BYTES }), kind);
}

/** Throws if the first bytes are those of another format. */
function requireFormat(fd: number, format: JudgedFormat): void {
  const first = Buffer.alloc(4);
  const bytesRead = readSync(fd, first, 0, first.length, 0);
  if (bytesRead === 0) throw invalidArchive('it is empty');
  const found = detectArchive(first.subarray(0, bytesRead));
  if (found === KINDS[format]) return;
  const name = Object.entries(KINDS).find(([, kind]) => kind === found)?.[0];
  // A plain tar has no signature at its beginning, so any other format is detected by its own signature.
  throw invalidArchive(found === 'none' ? `it is not a ${format}` : `it is a ${name}, not a ${format}`);
}

function requireNoSetId({ name, type, mode }: ArchiveEntry): void {
  if (type !== 'symlink' && (mode & SET_ID_BITS) !== 0) {
    throw refusedEntry(name, 'has a set-user-id or set-group-id bit; clear it with chmod ug-s');
  }
}

function tooLarge({ name }: ArchiveEntry, maxUnpackedBytes: number) {
  return refusedEntry(name, `does not fit: the files have more than the ${maxUnpackedBytes} bytes of the run's disk`);
}
