import { randomHex } from '../base/random-hex.ts';
import { type FilePath, joined } from './file-path.ts';

const TEMPORARY = /^\.cloche-[0-9a-f]{16}\.part$/;

/** What is being made lies beside its target under such a name, which no listing shows. */
export function isTemporary(name: string): boolean {
  return TEMPORARY.test(name);
}

/** Whether a part of `path` is one. */
export function isWithinTemporary(path: FilePath): boolean {
  return path.split('/').some(isTemporary);
}

export function temporaryIn(folder: FilePath): FilePath {
  return joined(folder, `.cloche-${randomHex(8)}.part`);
}
