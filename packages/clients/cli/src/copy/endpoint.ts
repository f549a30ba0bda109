import { isUtf8 } from 'node:buffer';
import { existsSync } from 'node:fs';
import { basename, posix } from 'node:path';
import { DEFAULT_CWD } from '@cloche/contract/client';
import { escapedForFileUri, FILE_URI_PREFIX, isFileUri, pathOfFileUri } from '@cloche/protocol';
import type { Session } from '../session.ts';
import { wholeId } from '../whole-id.ts';

/** Source or target of a copy. */
export type Endpoint =
  | { readonly kind: 'local'; readonly path: string }
  | { readonly kind: 'standard' }
  | { readonly kind: 'sandbox'; readonly sandboxId: string; readonly path: string };

/**
 * Parses an endpoint: `sbx_…:/path` is in a sandbox, and so is a short id with a digit; `-` is standard input or output, everything
 * else is a local path. A local file whose name looks like a short id and a path can be written with `./` before it.
 */
export function readEndpoint(text: string): Endpoint {
  if (text === '-') return { kind: 'standard' };
  const [, sandboxId, path] = /^(sbx_[^:/]*|@last|(?=[a-z]*[0-9])[0-9a-z]{4,19}):(.*)$/s.exec(text) ?? [];
  const isFile = sandboxId?.startsWith('sbx_') === false && existsSync(text);
  if (sandboxId === undefined || path === undefined || isFile) return { kind: 'local', path: text };
  return { kind: 'sandbox', sandboxId, path: path === '' ? DEFAULT_CWD : path };
}

/** Parses an endpoint, and finds the sandbox that a short id means. */
export async function findEndpoint(session: Session, text: string): Promise<Endpoint> {
  const endpoint = readEndpoint(text);
  if (endpoint.kind !== 'sandbox') return endpoint;
  return { ...endpoint, sandboxId: await wholeId(() => session.connect(), 'sandbox', endpoint.sandboxId) };
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
