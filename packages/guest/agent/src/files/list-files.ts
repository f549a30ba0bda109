import type { ServerResponse } from 'node:http';
import { TimeSlice } from '@cloche/node-support';
import { type AgentFile, MAX_PATH_BYTES } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { entryOf, withDetails } from './file-entry.ts';
import { isAboutOneFile, shown, toFileError } from './file-error.ts';
import { type FilePath, joined } from './file-path.ts';
import type { FileSystem } from './file-system.ts';
import { isTemporary } from './temporary.ts';

/** Entries that are read with one switch of rights. */
const AT_ONCE = 64;

export interface Listing {
  readonly depth: number;
  /** Whether the server knows the field `unlisted`. */
  readonly marksUnlisted: boolean;
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
    if (system.find(folder)?.isDirectory() === false)
      throw new AgentError('conflict', `${shown(folder)} is not a directory; get it as a file.`);
    await new Walk(system, listing, add).into(folder, await namesIn(folder, system, listing.limit), listing.depth);
  } catch (error) {
    throw toFileError(error, folder);
  }
  response.setHeader('content-type', 'application/x-ndjson');
  response.end(lines.join(''));
}

class Walk {
  readonly #system: FileSystem;
  readonly #listing: Listing;
  readonly #add: (entry: AgentFile) => void;
  readonly #timeSlice = new TimeSlice();

  constructor(system: FileSystem, listing: Listing, add: (entry: AgentFile) => void) {
    this.#system = system;
    this.#listing = listing;
    this.#add = add;
  }

  async into(folder: FilePath, names: readonly string[], depth: number): Promise<void> {
    for (let at = 0; at < names.length; at += AT_ONCE) {
      await this.#timeSlice.yieldIfOver();
      const paths = names.slice(at, at + AT_ONCE).map((name) => joined(folder, name));
      const found = this.#system.run(() =>
        paths.flatMap((path) => findEntry(path, this.#system, this.#listing.hasDetails)),
      );
      for (const { path, entry } of found) {
        if (depth === 1 || entry.type !== 'directory') this.#add(entry);
        else await this.#addDirectory(path, entry, depth - 1);
      }
    }
  }

  async #addDirectory(path: FilePath, entry: AgentFile, depth: number): Promise<void> {
    const names = await this.#findNames(path);
    const isMarked = names === undefined && this.#listing.marksUnlisted;
    this.#add(isMarked ? { ...entry, unlisted: true } : entry);
    if (names !== undefined) await this.into(path, names, depth);
  }

  /**
   * Returns undefined for a directory whose entries cannot be named: one that the user may not read or enter, that no
   * process can read, that has vanished, or whose entries have too long a path.
   */
  async #findNames(folder: FilePath): Promise<string[] | undefined> {
    try {
      // Looking up a name takes the right to enter the directory, which reading it does not.
      this.#system.stat(`${folder}/.` as FilePath);
      const names = await namesIn(folder, this.#system, this.#listing.limit);
      const longest = names.reduce((length, name) => Math.max(length, name.length), 0);
      return folder.length + 1 + longest < MAX_PATH_BYTES ? names : undefined;
    } catch (error) {
      if (isAboutOneFile(error)) return undefined;
      throw error;
    }
  }
}

/** Returns nothing for an entry that has vanished or cannot be looked at. */
function findEntry(path: FilePath, system: FileSystem, hasDetails: boolean): { path: FilePath; entry: AgentFile }[] {
  try {
    const stat = system.findLink(path);
    if (!stat) return [];
    const entry = entryOf(path, stat, system);
    return [{ path, entry: hasDetails ? withDetails(entry, path, system) : entry }];
  } catch (error) {
    if (isAboutOneFile(error)) return [];
    throw error;
  }
}

/** Returns names sorted by their bytes. Stops after `limit + 1` names, which shows that there are too many. */
export async function namesIn(
  folder: FilePath,
  system: FileSystem,
  limit = Number.POSITIVE_INFINITY,
): Promise<string[]> {
  const names: string[] = [];
  for await (const name of system.namesIn(folder)) {
    if (!isTemporary(name)) names.push(name);
    if (names.length > limit) break;
  }
  return names.sort();
}

/** Returns all names in a folder, in no order, including those of the agent's temporary files. */
export async function allNamesIn(folder: FilePath, system: FileSystem): Promise<string[]> {
  return Array.fromAsync(system.namesIn(folder));
}
