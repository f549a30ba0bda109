import type { ServerResponse } from 'node:http';
import type { AgentFile } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { entryOf } from './file-entry.ts';
import { PermissionDenied, shown, toFileFault } from './file-fault.ts';
import { codeOf, type FilePath, joined } from './file-path.ts';
import type { FileSystem } from './file-system.ts';
import { Pace } from './pace.ts';
import { isTemporary } from './temporary.ts';

/** Entries that are looked at in a row with the client's rights. */
const AT_ONCE = 64;

export interface Listing {
  readonly depth: number;
  /** The most entries. */
  readonly limit: number;
}

/** Answers what is in `folder`, and below it down to `depth`; a folder comes before what it holds. */
export async function sendListing(
  folder: FilePath,
  listing: Listing,
  system: FileSystem,
  response: ServerResponse,
): Promise<void> {
  const lines: string[] = [];
  const add = (entry: AgentFile) => {
    if (lines.length >= listing.limit) {
      const message = `${shown(folder)} has more than ${listing.limit} entries; list a subdirectory, or request fewer levels.`;
      throw new AgentError('too_many', message);
    }
    lines.push(`${JSON.stringify(entry)}\n`);
  };
  try {
    await new Walk(system, listing.limit, add).into(folder, listing.depth);
  } catch (error) {
    throw toFileFault(error, folder);
  }
  response.setHeader('content-type', 'application/x-ndjson');
  response.end(lines.join(''));
}

class Walk {
  readonly #system: FileSystem;
  readonly #limit: number;
  readonly #add: (entry: AgentFile) => void;
  readonly #pace = new Pace();

  constructor(system: FileSystem, limit: number, add: (entry: AgentFile) => void) {
    this.#system = system;
    this.#limit = limit;
    this.#add = add;
  }

  async into(folder: FilePath, depth: number): Promise<void> {
    const names = await namesIn(folder, this.#system, this.#limit);
    for (let at = 0; at < names.length; at += AT_ONCE) {
      await this.#pace.step();
      const paths = names.slice(at, at + AT_ONCE).map((name) => joined(folder, name));
      const found = this.#system.run(() => paths.flatMap((path) => findEntry(path, this.#system)));
      for (const { path, entry } of found) {
        this.#add(entry);
        // One that is gone, another thing by now, or closed to the user, is listed as if it were empty.
        if (depth > 1 && entry.type === 'directory') await this.into(path, depth - 1).catch(ignoreChange);
      }
    }
  }
}

/** None where it is gone already, or its folder can be read and not searched. */
function findEntry(path: FilePath, system: FileSystem): { path: FilePath; entry: AgentFile }[] {
  try {
    const stat = system.findLink(path);
    return stat ? [{ path, entry: entryOf(path, stat, system) }] : [];
  } catch (error) {
    ignoreChange(error);
    return [];
  }
}

/** Sorted by their bytes; one more than `limit` is enough to know that there are too many. */
export async function namesIn(
  folder: FilePath,
  system: FileSystem,
  limit = Number.POSITIVE_INFINITY,
): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of system.openDirectory(folder)) {
    if (!isTemporary(name)) names.push(name);
    if (names.length > limit) break;
  }
  return names.sort();
}

/** Returns all names in a folder, in no order, including those of the agent's temporary files. */
export async function allNamesIn(folder: FilePath, system: FileSystem): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of system.openDirectory(folder)) names.push(name);
  return names;
}

function ignoreChange(error: unknown): void {
  if (error instanceof PermissionDenied || ['ENOENT', 'ENOTDIR'].includes(codeOf(error) ?? '')) return;
  throw error;
}
