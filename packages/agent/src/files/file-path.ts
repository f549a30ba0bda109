/**
 * Paths in bytes, as the system defines them. The agent keeps each byte as one character (Latin-1), so that the usual
 * path functions work. `bytesOf` converts such a path to the bytes for a system call.
 */
import { isUtf8 } from 'node:buffer';
import { posix } from 'node:path';
import { escapedForFileUri, FILE_URI_PREFIX, isFileUri, MAX_PATH_BYTES, pathOfFileUri } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import type { FileSystem } from './file-system.ts';

declare const kind: unique symbol;
/** An absolute path, one character for each byte. */
export type FilePath = string & { readonly [kind]: 'FilePath' };

export function bytesOf(path: FilePath): Buffer {
  return Buffer.from(path, 'latin1');
}

/** Returns the absolute path of `text`, relative to `workspace`. Follows links before `..`. Throws `invalid_path`. */
export function readPath(text: string, workspace: string, system: FileSystem): FilePath {
  const path = isFileUri(text) ? fromUri(text) : Buffer.from(text, 'utf8').toString('latin1');
  if (path === '' || path.includes('\0'))
    throw new AgentError('invalid_path', 'is invalid: it must not be empty or contain NUL');
  const base = Buffer.from(workspace).toString('latin1');
  const absolute = path.startsWith('/') ? path : `${base}/${path}`;
  if (absolute.length > MAX_PATH_BYTES) {
    throw new AgentError('invalid_path', `is invalid: it must have at most ${MAX_PATH_BYTES} bytes`);
  }
  return /(^|\/)\.\.(\/|$)/.test(absolute) ? system.run(() => withoutDots(absolute, system)) : normalized(absolute);
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

export function folderOf(path: FilePath): FilePath {
  return posix.dirname(path) as FilePath;
}

/** Returns the path that a link in `folder` with the text `target` leads to. */
export function followed(folder: FilePath, target: string): FilePath {
  return posix.resolve(folder, target) as FilePath;
}

function normalized(path: string): FilePath {
  const short = posix.normalize(path);
  return (short.length > 1 && short.endsWith('/') ? short.slice(0, -1) : short) as FilePath;
}

function withoutDots(path: string, system: FileSystem): FilePath {
  let at = '/' as FilePath;
  for (const part of path.split('/')) {
    if (part === '..') at = folderOf(realPathIfPresent(at, system));
    else if (part !== '' && part !== '.') at = joined(at, part);
  }
  return at;
}

function realPathIfPresent(path: FilePath, system: FileSystem): FilePath {
  try {
    return system.realpath(path);
  } catch (error) {
    if (error instanceof AgentError) throw error;
    return path;
  }
}

function fromUri(uri: string): string {
  if (/%(?![0-9a-f]{2})/i.test(uri))
    throw new AgentError('invalid_path', 'is an invalid URI: each % must be followed by two hexadecimal digits');
  return pathOfFileUri(uri);
}

/** Returns the code of a system error, such as `ENOENT`; undefined for any other error. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}
