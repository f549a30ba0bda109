import { randomHex } from '../base/random-hex.ts';
import { type FilePath, joined } from './file-path.ts';

const TEMPORARY = /^\.cloche-[0-9a-f]{16}\.part$/;

/**
 * Returns whether a file has the name of an unfinished file. Such files lie beside their target; listings hide them.
 */
export function isTemporary(name: string): boolean {
  return TEMPORARY.test(name);
}

/** Returns whether a part of `path` is such a name. */
export function isWithinTemporary(path: FilePath): boolean {
  return path.split('/').some(isTemporary);
}

export function temporaryIn(folder: FilePath): FilePath {
  return joined(folder, `.cloche-${randomHex(8)}.part`);
}
