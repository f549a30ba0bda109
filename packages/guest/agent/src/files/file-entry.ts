import type { BigIntStats } from 'node:fs';
import type { AgentFile } from '@cloche/protocol';
import { attributesOf } from './attributes.ts';
import { isAboutOneFile } from './file-error.ts';
import { type FilePath, nameOf, textOf } from './file-path.ts';
import type { FileSystem } from './file-system.ts';

/** Largest time that a JavaScript date can hold, in milliseconds. The smallest is its negative. */
const MAX_MS = 8_640_000_000_000_000n;

/** Returns the description of the file at `path`. Does not follow a link. */
export function describeFile(path: FilePath, system: FileSystem, hasDetails = false): AgentFile {
  return system.run(() => {
    const entry = entryOf(path, system.lstat(path), system);
    return hasDetails ? withDetails(entry, path, system) : entry;
  });
}

/** Adds what takes further system calls: attributes, and what a link leads to. */
export function withDetails(entry: AgentFile, path: FilePath, system: FileSystem): AgentFile {
  return system.run(() => {
    const attributes = attributesOf(path);
    const resolved = entry.type === 'symlink' ? resolvedLink(path, system) : undefined;
    return { ...entry, ...(attributes && { attributes }), ...(resolved && { resolved }) };
  });
}

/** Returns what a link leads to; undefined if that is nothing, or not accessible to the user. */
function resolvedLink(path: FilePath, system: FileSystem): AgentFile['resolved'] {
  try {
    return { path: textOf(system.realpath(path)), type: typeOf(system.stat(path)) };
  } catch {
    return undefined;
  }
}

export function entryOf(path: FilePath, stat: BigIntStats, system: FileSystem): AgentFile {
  const type = typeOf(stat);
  return {
    path: textOf(path),
    name: nameOf(path),
    type,
    sizeBytes: Number(stat.size),
    mode: Number(stat.mode) & 0o7777,
    uid: Number(stat.uid),
    gid: Number(stat.gid),
    modifiedMs: clamped(stat.mtimeNs / 1_000_000n),
    ...(type === 'file' ? { etag: etagOf(stat) } : {}),
    // A link's target is bytes; this is the text for people to read.
    ...(type === 'symlink' ? targetOf(path, system) : {}),
  };
}

/** Returns nothing for a link of `/proc` that its process hides. */
function targetOf(path: FilePath, system: FileSystem): { target?: string } {
  try {
    return { target: system.readlink(path).toString('utf8') };
  } catch (error) {
    if (isAboutOneFile(error)) return {};
    throw error;
  }
}

/** Returns a strong ETag: every change of the content changes one of these numbers. */
export function etagOf({ ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return `"${[ino, size, mtimeNs, ctimeNs].map((part) => BigInt.asUintN(64, part).toString(16)).join('-')}"`;
}

function typeOf(stat: BigIntStats): AgentFile['type'] {
  if (stat.isFile()) return 'file';
  if (stat.isDirectory()) return 'directory';
  return stat.isSymbolicLink() ? 'symlink' : 'other';
}

function clamped(ms: bigint): number {
  return Number(ms > MAX_MS ? MAX_MS : ms < -MAX_MS ? -MAX_MS : ms);
}
