import type { ServerResponse } from 'node:http';
import { TimeSlice } from '@cloche/node-support';
import type { AgentFile } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { codeOf } from '../base/error-code.ts';
import { entryOf, withDetails } from './file-entry.ts';
import { PermissionDeniedError, shown, toFileError } from './file-error.ts';
import { type FilePath, joined } from './file-path.ts';
import type { FileSystem } from './file-system.ts';
import { isTemporary } from './temporary.ts';

/** Entries that are read with one switch of rights. */
const AT_ONCE = 64;

export interface Listing {
  readonly depth: number;
  /** Most entries of a listing. */
  readonly limit: number;
  /** Whether each entry has its attributes, and what a link leads to. */
  readonly hasDetails: boolean;
}

/** Sends the entries of `folder`, down to `depth` levels. A folder precedes its entries. */
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
    await new Walk(system, listing, add).into(folder, listing.depth);
  } catch (error) {
    throw toFileError(error, folder);
  }
  response.setHeader('content-type', 'application/x-ndjson');
  response.end(lines.join(''));
}

class Walk {
  readonly #system: FileSystem;
  readonly #limit: number;
  readonly #hasDetails: boolean;
  readonly #add: (entry: AgentFile) => void;
  readonly #timeSlice = new TimeSlice();

  constructor(system: FileSystem, { limit, hasDetails }: Listing, add: (entry: AgentFile) => void) {
    this.#system = system;
    this.#limit = limit;
    this.#hasDetails = hasDetails;
    this.#add = add;
  }

  async into(folder: FilePath, depth: number): Promise<void> {
    const names = await namesIn(folder, this.#system, this.#limit);
    for (let at = 0; at < names.length; at += AT_ONCE) {
      await this.#timeSlice.yieldIfOver();
      const paths = names.slice(at, at + AT_ONCE).map((name) => joined(folder, name));
      const found = this.#system.run(() => paths.flatMap((path) => findEntry(path, this.#system)));
      for (const { path, entry } of found) {
        this.#add(this.#hasDetails ? withDetails(entry, path, this.#system) : entry);
        // A folder that was deleted or replaced meanwhile, or that the user may not read, is listed as empty.
        if (depth > 1 && entry.type === 'directory') await this.into(path, depth - 1).catch(ignoreChange);
      }
    }
  }
}

/** Returns nothing for an entry that was deleted, or whose folder can be read but not searched. */
function findEntry(path: FilePath, system: FileSystem): { path: FilePath; entry: AgentFile }[] {
  try {
    const stat = system.findLink(path);
    return stat ? [{ path, entry: entryOf(path, stat, system) }] : [];
  } catch (error) {
    ignoreChange(error);
    return [];
  }
}

/** Returns names sorted by their bytes. Stops after `limit + 1` names, which shows that there are too many. */
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
  if (error instanceof PermissionDeniedError || ['ENOENT', 'ENOTDIR'].includes(codeOf(error) ?? '')) return;
  throw error;
}
