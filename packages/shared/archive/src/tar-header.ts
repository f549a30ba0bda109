/**
 * Blocks of tar in the formats of POSIX and GNU. All text has one character for each byte (Latin-1), because names in
 * an archive, as on the disk, are bytes.
 */

import { paxRecord, TAR_XATTR } from './tar-records.ts';

export const TAR_BLOCK_BYTES = 512;

export interface TarHeader {
  readonly name: string;
  /**
   * Type flag: `0` file, `1` hard link, `2` symbolic link, `5` directory; `L`, `K`, `x` and `g` are records about the
   * next entry.
   */
  readonly flag: string;
  readonly mode: number;
  readonly size: number;
  /** Seconds since the epoch. */
  readonly mtime: number;
  readonly linkName: string;
  /** Numbers of the owner and its group. */
  readonly uid?: number;
  readonly gid?: number;
  /** Extended attributes, only written; `readTar` reads them. */
  readonly xattrs?: ReadonlyMap<string, string> | undefined;
}

/** A block that is not a valid tar header. */
export class InvalidTarError extends Error {
  override readonly name = 'InvalidTarError';
}

/** Reads a header. Returns undefined for a block of zeros, which ends an archive. Throws `InvalidTarError`. */
export function readTarHeader(block: Buffer): TarHeader | undefined {
  if (block[0] === 0 && block.every((byte) => byte === 0)) return undefined;
  if (number(block, 148, 8) !== checksum(block)) throw new InvalidTarError('the checksum of a header is wrong');
  const prefix = block.toString('latin1', 257, 262) === 'ustar' && block[263] !== 0x20 ? text(block, 345, 155) : '';
  const name = text(block, 0, 100);
  return {
    name: prefix === '' ? name : `${prefix}/${name}`,
    flag: block[156] === 0 ? '0' : String.fromCharCode(block[156] ?? 0),
    mode: number(block, 100, 8),
    size: number(block, 124, 12),
    mtime: number(block, 136, 12),
    linkName: text(block, 157, 100),
    uid: number(block, 108, 8),
    gid: number(block, 116, 8),
  };
}

/** Returns a header. Names that do not fit are in GNU records before it, extended attributes in a pax record. */
export function writeTarHeader(header: TarHeader): Buffer {
  const { name, linkName, xattrs } = header;
  const parts: Buffer[] = [];
  if (xattrs !== undefined && xattrs.size > 0) parts.push(...xattrRecord(xattrs));
  if (linkName.length > 100) parts.push(...longRecord('K', linkName));
  if (name.length > 100) parts.push(...longRecord('L', name));
  parts.push(block(header));
  return Buffer.concat(parts);
}

export function tarPadding(size: number): number {
  return (TAR_BLOCK_BYTES - (size % TAR_BLOCK_BYTES)) % TAR_BLOCK_BYTES;
}

function longRecord(flag: string, value: string): Buffer[] {
  const size = value.length + 1;
  const header = { name: '././@LongLink', flag, mode: 0o644, size, mtime: 0, linkName: '' };
  return [block(header), Buffer.from(value, 'latin1'), Buffer.alloc(1 + tarPadding(size))];
}

function xattrRecord(xattrs: ReadonlyMap<string, string>): Buffer[] {
  const text = [...xattrs].map(([name, value]) => paxRecord(TAR_XATTR + name, value)).join('');
  const header = { name: '././@PaxHeader', flag: 'x', mode: 0o644, size: text.length, mtime: 0, linkName: '' };
  return [block(header), Buffer.from(text, 'latin1'), Buffer.alloc(tarPadding(text.length))];
}

function block({ name, flag, mode, size, mtime, linkName, uid = 0, gid = 0 }: TarHeader): Buffer {
  const bytes = Buffer.alloc(TAR_BLOCK_BYTES);
  bytes.write(name.slice(0, 100), 0, 'latin1');
  octal(bytes, mode, 100, 8);
  octal(bytes, uid, 108, 8);
  octal(bytes, gid, 116, 8);
  octal(bytes, size, 124, 12);
  octal(bytes, Math.max(0, Math.floor(mtime)), 136, 12);
  bytes.write(flag, 156, 'latin1');
  bytes.write(linkName.slice(0, 100), 157, 'latin1');
  bytes.write('ustar  ', 257, 'latin1');
  octal(bytes, checksum(bytes), 148, 7);
  bytes[155] = 0x20;
  return bytes;
}

/** Writes a number in octal, or in base 256 as GNU does when the digits do not fit. */
function octal(bytes: Buffer, value: number, at: number, width: number): void {
  const digits = value.toString(8);
  if (digits.length < width) {
    bytes.write(digits.padStart(width - 1, '0'), at, 'latin1');
    return;
  }
  bytes.writeUIntBE(value, at + width - 6, 6);
  bytes[at] = 0x80;
}

function number(bytes: Buffer, at: number, width: number): number {
  if ((bytes[at] ?? 0) & 0x80) {
    // Larger than any disk.
    if (bytes.subarray(at + 1, at + width - 6).some((byte) => byte !== 0)) return Number.MAX_SAFE_INTEGER;
    return bytes.readUIntBE(at + width - 6, 6);
  }
  const value = digitsAt(bytes, at, width);
  if (value !== undefined) return value;
  const digits = text(bytes, at, width).trim();
  if (!/^[0-7]*$/.test(digits)) throw new InvalidTarError('a header has an invalid number');
  return digits === '' ? 0 : Number.parseInt(digits, 8);
}

/**
 * Returns a number in the usual form, of digits up to a space or NUL; undefined for other forms. Makes no string,
 * because a header has six numbers.
 */
function digitsAt(bytes: Buffer, at: number, width: number): number | undefined {
  let value = 0;
  for (let index = at; index < at + width; index += 1) {
    const byte = bytes[index] ?? 0;
    if (byte === 0 || (byte === 0x20 && isBlank(bytes, index, at + width))) return value;
    if (byte < 0x30 || byte > 0x37) return undefined;
    value = value * 8 + byte - 0x30;
  }
  return value;
}

/** Returns whether only spaces are between two positions, up to a NUL. */
function isBlank(bytes: Buffer, from: number, to: number): boolean {
  for (let index = from; index < to && bytes[index] !== 0; index += 1) if (bytes[index] !== 0x20) return false;
  return true;
}

/** Returns the sum of all bytes, with those of the checksum field counted as spaces. */
function checksum(bytes: Buffer): number {
  let sum = 8 * 0x20;
  // Indexes, because an iterator takes ten times as long, and each entry of an archive has a header.
  for (let index = 0; index < 148; index += 1) sum += bytes[index] ?? 0;
  for (let index = 156; index < bytes.length; index += 1) sum += bytes[index] ?? 0;
  return sum;
}

function text(bytes: Buffer, at: number, width: number): string {
  const end = bytes.indexOf(0, at);
  return bytes.toString('latin1', at, end === -1 ? at + width : Math.min(end, at + width));
}
