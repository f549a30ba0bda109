import { type BigIntStats, lstatSync } from 'node:fs';
import { opendir } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import type { AgentFile } from '@cloche/protocol';
import { AgentError } from '../agent-error.ts';
import { entryOf } from './file-entry.ts';
import { onFile, shown } from './file-fault.ts';
import { bytesOf, type FilePath, joined } from './file-path.ts';
import { codeOf } from './owner.ts';
import { isTemporary } from './temporary.ts';

/** So many are looked at in a row: asking the system directly is ten times as fast as through the thread pool. */
const AT_ONCE = 100;

export interface Listing {
  readonly depth: number;
  /** The most entries. */
  readonly limit: number;
}

/** Answers what is in `folder`, and below it down to `depth`; a folder comes before what it holds. */
export async function sendListing(folder: FilePath, listing: Listing, response: ServerResponse): Promise<void> {
  const lines: string[] = [];
  const add = (entry: AgentFile) => {
    if (lines.length >= listing.limit) {
      const message = `${shown(folder)} has more than ${listing.limit} entries; list less of it, or less deeply.`;
      throw new AgentError('too_many', message);
    }
    lines.push(`${JSON.stringify(entry)}\n`);
  };
  await onFile(folder, () => walk(folder, listing.depth, listing.limit, add));
  response.setHeader('content-type', 'application/x-ndjson');
  response.end(lines.join(''));
}

async function walk(folder: FilePath, depth: number, limit: number, add: (entry: AgentFile) => void): Promise<void> {
  const names = await namesIn(folder, limit);
  for (const [index, name] of names.entries()) {
    if (index % AT_ONCE === AT_ONCE - 1) await setImmediate();
    const path = joined(folder, name);
    const stat = statOf(path);
    if (!stat) continue;
    add(await entryOf(path, stat));
    // One that is gone, or another thing by now, is simply empty.
    if (depth > 1 && stat.isDirectory()) await walk(path, depth - 1, limit, add).catch(ignoreChange);
  }
}

/** Sorted by their bytes; one more than `limit` is enough to know that there are too many. */
export async function namesIn(folder: FilePath, limit = Number.POSITIVE_INFINITY): Promise<string[]> {
  const names: string[] = [];
  // The type knows no encoding of single bytes, the function does.
  const options = { encoding: 'latin1' as BufferEncoding, bufferSize: 1024 };
  for await (const { name } of await opendir(bytesOf(folder), options)) {
    if (!isTemporary(name)) names.push(name);
    if (names.length > limit) break;
  }
  return names.sort();
}

function statOf(path: FilePath): BigIntStats | undefined {
  try {
    return lstatSync(bytesOf(path), { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    ignoreChange(error);
    return undefined;
  }
}

function ignoreChange(error: unknown): void {
  if (!['ENOENT', 'ENOTDIR', 'EACCES'].includes(codeOf(error) ?? '')) throw error;
}
