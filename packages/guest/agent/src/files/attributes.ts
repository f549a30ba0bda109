/** Extended attributes of files in the namespace `user.`, which Node has no functions for. */
import { AgentError } from '../base/agent-error.ts';
import { loadFfi } from '../base/load-ffi.ts';
import { bytesOf, type FilePath } from './file-path.ts';

export type Attributes = Readonly<Record<string, string>>;

const PREFIX = 'user.';
/** Most bytes of names, and of values, that are read of one file. */
const MOST_BYTES = 16 * 1024;
/** Most attributes of one file that are read or written. */
const MOST_ATTRIBUTES = 64;

const TYPES = {
  llistxattr: { arguments: ['buffer', 'buffer', 'uint64'], return: 'int64' },
  lgetxattr: { arguments: ['buffer', 'buffer', 'buffer', 'uint64'], return: 'int64' },
  fsetxattr: { arguments: ['int32', 'buffer', 'buffer', 'uint64', 'int32'], return: 'int32' },
} as const;

function openCalls() {
  return loadFfi().dlopen(null, TYPES).functions;
}
let opened: ReturnType<typeof openCalls> | undefined;

function calls() {
  opened ??= openCalls();
  return opened;
}

/**
 * Returns the attributes of a file, not following a link; undefined for none. Leaves out what exceeds the bounds, and
 * what the user whose rights apply may not read.
 */
export function attributesOf(path: FilePath): Attributes | undefined {
  const { llistxattr, lgetxattr } = calls();
  const at = terminated(bytesOf(path));
  const bytes = Buffer.alloc(MOST_BYTES);
  const length = Number(llistxattr(at, bytes, BigInt(bytes.length)));
  if (length <= 0) return undefined;
  const all = bytes.toString('utf8', 0, length).split('\0');
  const names = all.filter((name) => name.startsWith(PREFIX)).slice(0, MOST_ATTRIBUTES);
  const attributes: [string, string][] = [];
  let left = MOST_BYTES;
  for (const name of names) {
    const read = Number(lgetxattr(at, terminated(Buffer.from(name)), bytes, BigInt(left)));
    if (read < 0) continue;
    left -= read;
    attributes.push([name.slice(PREFIX.length), bytes.toString('utf8', 0, read)]);
  }
  return attributes.length === 0 ? undefined : Object.fromEntries(attributes);
}

/** Sets attributes of an open file. @throws AgentError `disk_full` if the file system does not take them. */
export function setAttributes(fd: number, attributes: Attributes): void {
  const { fsetxattr } = calls();
  for (const [name, value] of Object.entries(attributes)) {
    const bytes = Buffer.from(value);
    // A buffer without bytes has no address.
    const held = bytes.length === 0 ? Buffer.alloc(1) : bytes;
    if (fsetxattr(fd, terminated(Buffer.from(PREFIX + name)), held, BigInt(bytes.length), 0) === 0) continue;
    throw new AgentError('disk_full', `The file system has no room for the attribute ${name}.`);
  }
}

/** Reads the header `file-attributes`. @throws AgentError `bad_request` */
export function readAttributes(header: string | string[]): Attributes {
  const attributes: unknown = JSON.parse(String(header));
  const entries = Object.entries(attributes as Record<string, unknown>);
  if (entries.length <= MOST_ATTRIBUTES && entries.every(([, value]) => typeof value === 'string')) {
    return Object.fromEntries(entries as [string, string][]);
  }
  throw new AgentError('bad_request', 'file-attributes must be an object of texts.');
}

function terminated(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.of(0)]);
}
