/**
 * Paths in bytes, as the system defines them. The agent keeps each byte as one character (Latin-1), so that the usual
 * path functions work. `bytesOf` converts such a path to the bytes for a system call.
 */
import { isUtf8 } from 'node:buffer';
import { posix } from 'node:path';
import { escapedForFileUri, FILE_URI_PREFIX } from '@cloche/protocol';

declare const kind: unique symbol;
/** An absolute path, one character for each byte. */
export type FilePath = string & { readonly [kind]: 'FilePath' };

export function bytesOf(path: FilePath): Buffer {
  return Buffer.from(path, 'latin1');
}

/** Returns the path as answers show it: UTF-8, or a `file:` URI if its bytes are not UTF-8. */
export function textOf(path: FilePath): string {
  const bytes = bytesOf(path);
  return isUtf8(bytes) ? bytes.toString('utf8') : FILE_URI_PREFIX + escapedForFileUri(path);
}

/** Returns the last part of a path, for people to read. */
export function nameOf(path: FilePath): string {
  return Buffer.from(posix.basename(path), 'latin1').toString('utf8');
}

export function joined(folder: FilePath, name: string): FilePath {
  return posix.join(folder, name) as FilePath;
}

/** Returns the path of an entry of an archive, whose `path` is normalized, in a folder that is not the root. */
export function below(folder: FilePath, path: string): FilePath {
  return `${folder}/${path}` as FilePath;
}

export function folderOf(path: FilePath): FilePath {
  return posix.dirname(path) as FilePath;
}

/** Returns the path that a link in `folder` with the text `target` leads to. */
export function followed(folder: FilePath, target: string): FilePath {
  return posix.resolve(folder, target) as FilePath;
}
