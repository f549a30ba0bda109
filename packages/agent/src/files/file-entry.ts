import type { BigIntStats } from 'node:fs';
import { lstat, readlink } from 'node:fs/promises';
import type { AgentFile } from '@cloche/protocol';
import { bytesOf, type FilePath, nameOf, textOf } from './file-path.ts';

/** The largest and smallest moments that a date can hold. */
const MAX_MS = 8_640_000_000_000_000n;

/** What is at `path` itself: a link is not followed. */
export async function describeFile(path: FilePath): Promise<AgentFile> {
  return entryOf(path, await lstat(bytesOf(path), { bigint: true }));
}

export async function entryOf(path: FilePath, stat: BigIntStats): Promise<AgentFile> {
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
    // The text of a link is bytes too; people read it.
    ...(type === 'symlink' ? { target: (await readlink(bytesOf(path), 'buffer')).toString('utf8') } : {}),
  };
}

/** Strong: whatever changes the content changes one of these. */
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
