import { posix } from 'node:path';
import { isFileUri, MAX_PATH_BYTES, pathOfFileUri } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { type FilePath, folderOf, joined } from './file-path.ts';
import type { FileSystem } from './file-system.ts';

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
