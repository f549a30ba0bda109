import { isUtf8 } from 'node:buffer';
import { basename, posix } from 'node:path';
import { DEFAULT_CWD } from '@cloche/contract/client';
import { escapedForFileUri, FILE_URI_PREFIX, isFileUri, pathOfFileUri } from '@cloche/protocol';
import { UsageError } from '../cli-error.ts';

/** Source or target of a copy. */
export type Endpoint =
  | { readonly kind: 'local'; readonly path: string }
  | { readonly kind: 'standard' }
  | { readonly kind: 'sandbox'; readonly sandboxId: string; readonly path: string };

/**
 * Parses an endpoint: `sbx_…:/path` is in a sandbox, `-` is standard input or output, everything else is a local path.
 */
export function readEndpoint(text: string): Endpoint {
  if (text === '-') return { kind: 'standard' };
  const [, sandboxId, path] = /^(sbx_[^:/]*):(.*)$/s.exec(text) ?? [];
  if (sandboxId === undefined || path === undefined) return { kind: 'local', path: text };
  if (path === '') throw new UsageError(`Give a path after ${sandboxId}, such as ${sandboxId}:/workspace`);
  return { kind: 'sandbox', sandboxId, path };
}

/** Returns whether the path means a directory's content, such as `folder/.`, as for `cp`. */
export function meansContent(path: string): boolean {
  return /(^|\/)\.?\.?$/.test(path) && !/[^/]\/+$/.test(path);
}

/** Returns the last part of a path in bytes. A `file:` URI of a sandbox can express any bytes. */
export function nameOf(side: Endpoint): Buffer {
  if (side.kind === 'standard') return Buffer.from('-');
  if (side.kind === 'local' || !isFileUri(side.path)) return Buffer.from(basename(side.path));
  return Buffer.from(posix.basename(pathOfFileUri(side.path)), 'latin1');
}

/** Returns the path of `name` in a local folder. */
export function joinLocal(folder: string, name: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${withoutEnd(folder)}/`), name]);
}

/**
 * Returns the path of `name` in a sandbox's folder. It is a URI if the folder is a URI or the name is not valid UTF-8.
 */
export function joinSandbox(folder: string, name: Buffer): string {
  if (isFileUri(folder))
    return `${FILE_URI_PREFIX}${withoutEnd(folder.slice(FILE_URI_PREFIX.length))}/${escaped(name)}`;
  if (isUtf8(name)) return `${withoutEnd(folder)}/${name}`;
  const absolute = folder.startsWith('/') ? folder : `${DEFAULT_CWD}/${folder}`;
  return `${FILE_URI_PREFIX}${escaped(Buffer.from(withoutEnd(absolute)))}/${escaped(name)}`;
}

function withoutEnd(folder: string): string {
  return folder.replace(/\/+$/, '');
}

function escaped(bytes: Buffer): string {
  return escapedForFileUri(bytes.toString('latin1'));
}
