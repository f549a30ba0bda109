import { invalidArchive } from './archive-entry.ts';

/** Values from the records before a header, which replace those of the header. */
export interface TarOverride {
  name?: string;
  linkName?: string;
  size?: number;
  mtime?: number;
  uid?: number;
  gid?: number;
  isSparse?: boolean;
  xattrs?: Map<string, string>;
}

/** Prefix of records with extended attributes, which GNU tar, star and libarchive write. */
export const TAR_XATTR = 'SCHILY.xattr.';

/** Parses pax records: lines such as `12 path=name\n` that start with their own length. */
export function readPax(record: string): TarOverride {
  const override: TarOverride = {};
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
    else if (key.startsWith(TAR_XATTR)) {
      override.xattrs ??= new Map();
      override.xattrs.set(key.slice(TAR_XATTR.length), value);
    } else if (key.startsWith('GNU.sparse.')) override.isSparse = true;
    at += Number(digits);
  }
  const { size = 0 } = override;
  if (!Number.isSafeInteger(size) || size < 0) throw invalidArchive('it has an invalid size in a pax header');
  return override;
}

/** Returns a pax record, the opposite of `readPax`. */
export function paxRecord(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  const digits = (length: number) => `${length}`.length;
  // The length counts its own digits.
  let length = rest.length + digits(rest.length);
  length = rest.length + digits(length);
  return `${length}${rest}`;
}

/** Returns the text before the first NUL. */
export function untilNul(value: string): string {
  const end = value.indexOf('\0');
  return end === -1 ? value : value.slice(0, end);
}
