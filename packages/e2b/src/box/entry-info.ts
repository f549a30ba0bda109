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

/** Returns an entry as E2B's clients expect it. */
export function entryInfo({ path, name, type, sizeBytes, mode, uid, gid, modifiedAt, target }: FileEntry): EntryInfo {
  const bits = Number.parseInt(mode, 8);
  return create(EntryInfoSchema, {
    name,
    path,
    type: TYPES[type],
    size: BigInt(sizeBytes),
    mode: bits,
    permissions: TYPE_LETTERS[type] + permissionsOf(bits),
    owner: USERS[uid] ?? String(uid),
    group: USERS[gid] ?? String(gid),
    modifiedTime: timestampFromDate(new Date(modifiedAt)),
    ...(target === undefined ? {} : { symlinkTarget: target }),
  });
}

/** Returns permissions as `ls` prints them, such as `rw-r--r--`. */
function permissionsOf(bits: number): string {
  return Array.from('rwxrwxrwx', (letter, index) => (bits & (0o400 >> index) ? letter : '-')).join('');
}
