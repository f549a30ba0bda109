import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { FileEntry } from '@cloche/contract';
import { type EntryInfo, EntryInfoSchema, FileType } from '../generated/filesystem/filesystem_pb.js';

const TYPES: Readonly<Record<FileEntry['type'], FileType>> = {
  file: FileType.FILE,
  directory: FileType.DIRECTORY,
  symlink: FileType.SYMLINK,
  other: FileType.UNSPECIFIED,
};
const TYPE_LETTERS: Readonly<Record<FileEntry['type'], string>> = {
  file: '-',
  directory: 'd',
  symlink: 'l',
  other: '-',
};
const USERS: Readonly<Record<number, string>> = { 0: 'root', 1000: 'user' };

/** Attributes in which E2B keeps the metadata of files. */
const METADATA_PREFIX = 'e2b.';

/** Returns an entry as E2B's clients expect it: a link has the type and the path of what it leads to. */
export function entryInfo({ path, name, type, sizeBytes, mode, uid, gid, modifiedAt, ...more }: FileEntry): EntryInfo {
  const bits = Number.parseInt(mode, 8);
  const target = more.resolved?.path ?? more.target;
  return create(EntryInfoSchema, {
    name,
    path,
    type: TYPES[more.resolved?.type ?? type],
    size: BigInt(sizeBytes),
    mode: bits,
    permissions: TYPE_LETTERS[type] + permissionsOf(bits),
    owner: USERS[uid] ?? String(uid),
    group: USERS[gid] ?? String(gid),
    modifiedTime: timestampFromDate(new Date(modifiedAt)),
    ...(target === undefined ? {} : { symlinkTarget: target }),
    metadata: metadataOf(more.attributes),
  });
}

function metadataOf(attributes: FileEntry['attributes'] = {}): Record<string, string> {
  const own = Object.entries(attributes).filter(([name]) => name.startsWith(METADATA_PREFIX));
  return Object.fromEntries(own.map(([name, value]) => [name.slice(METADATA_PREFIX.length), value]));
}

/** Returns the header that keeps metadata with a file; none for no metadata. */
export function attributesField(metadata: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(metadata).map(([name, value]) => [METADATA_PREFIX + name, value]);
  return entries.length === 0 ? {} : { 'file-attributes': JSON.stringify(Object.fromEntries(entries)) };
}

/** Returns permissions as `ls` prints them, such as `rw-r--r--`. */
function permissionsOf(bits: number): string {
  return Array.from('rwxrwxrwx', (letter, index) => (bits & (0o400 >> index) ? letter : '-')).join('');
}
