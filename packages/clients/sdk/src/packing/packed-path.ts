import { lstatSync, readFileSync } from 'node:fs';
import { ClocheError } from '../cloche-error.ts';

/** Paths below the packed directory have one character for each byte (Latin-1), because names are bytes. */

const MAX_IGNORE_FILE_BYTES = 1024 * 1024;

export function pathIn(root: Buffer, name: string): Buffer {
  return name === '' ? root : Buffer.concat([root, Buffer.from(`/${name}`, 'latin1')]);
}

/** Joins two relative paths, either of which may be empty. */
export function joined(folder: string, name: string): string {
  return folder === '' || name === '' ? folder + name : `${folder}/${name}`;
}

/** Returns a path of bytes as text. */
export function shown(name: string): string {
  return name === '' ? '.' : Buffer.from(name, 'latin1').toString();
}

export function packingFailed(why: string, cause?: unknown): ClocheError {
  return new ClocheError('packing_failed', `The directory cannot be packed: ${why}.`, { cause });
}

/** Returns the content of a `.gitignore` or `.clocheignore`; undefined if there is none. A link is not followed. */
export function readIgnoreFile(path: Buffer): Buffer | undefined {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (!stat?.isFile()) return undefined;
  if (stat.size > MAX_IGNORE_FILE_BYTES) throw packingFailed(`${path} is larger than ${MAX_IGNORE_FILE_BYTES} bytes`);
  return readFileSync(path);
}
