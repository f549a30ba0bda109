import { closeSync, constants, type Dirent, lstatSync, opendirSync, openSync, readlinkSync } from 'node:fs';
import { requireInnerLink } from '@cloche/archive/entry-name';
import type { PackingNote } from './archive-source.ts';
import type { IgnoreFiles, IgnoreRules } from './ignore-rules.ts';
import { outerRules } from './outer-rules.ts';
import { joined, packingFailed, pathIn, readIgnoreFile, shown } from './packed-path.ts';
import { TimeSlice } from './time-slice.ts';

/** Something to pack. */
export interface Entry {
  /** Relative to the directory. */
  readonly name: string;
  readonly kind: 'file' | 'directory' | 'link';
  /** Permission bits, without set-id bits. */
  readonly mode: number;
  readonly sizeBytes: number;
  readonly mtimeMs: number;
  /** Target of a link, as it is written in it. Empty for others. */
  readonly target: string;
}

export interface FoundEntries {
  /** In the order of the archive: by name, a directory before its entries. */
  readonly entries: readonly Entry[];
  readonly notes: readonly PackingNote[];
}

/** Names of one folder that are read at all, with those that are left out. */
const MAX_NAMES = 1_000_000;
/** Problems that the error names. Of further ones it has only the number. */
const MAX_PROBLEMS = 10;
const MAX_NOTES = 1000;

/** If a pipe has replaced a file, opening does not block. */
export const READING = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;

/**
 * Finds what belongs in an archive of `directory`.
 * @throws {ClocheError} `packing_failed`, which names files that cannot be read and links that lead out.
 */
export async function findEntries(
  directory: Buffer,
  maxEntries: number,
  signal: AbortSignal | undefined,
): Promise<FoundEntries> {
  const search = new Search(directory, maxEntries, signal);
  const { rules, prefix } = outerRules(directory);
  await search.into('', rules, prefix);
  search.requireNoProblem();
  return search;
}

class Search {
  readonly entries: Entry[] = [];
  readonly notes: PackingNote[] = [];
  readonly #root: Buffer;
  readonly #maxEntries: number;
  readonly #signal: AbortSignal | undefined;
  readonly #timeSlice = new TimeSlice();
  readonly #problems: string[] = [];
  #problemCount = 0;

  constructor(root: Buffer, maxEntries: number, signal: AbortSignal | undefined) {
    this.#root = root;
    this.#maxEntries = maxEntries;
    this.#signal = signal;
  }

  /** @param prefix path of the directory from the folder of the topmost rules */
  async into(folder: string, outer: IgnoreRules, prefix: string): Promise<void> {
    const children = this.#attempt(folder, () => this.#childrenOf(folder));
    if (!children) return;
    const rules = outer.within(joined(prefix, folder), this.#ignoreFilesIn(folder, children));
    for (const { name, isDirectory } of children) {
      await this.#timeSlice.yieldIfOver();
      this.#signal?.throwIfAborted();
      const path = joined(folder, name);
      if (name === '.git' || rules.leavesOut(joined(prefix, path), isDirectory)) continue;
      this.#attempt(path, () => this.#add(path));
      if (isDirectory) await this.into(path, rules, prefix);
    }
  }

  requireNoProblem(): void {
    if (this.#problemCount === 0) return;
    const more = this.#problemCount - this.#problems.length;
    const rest = more > 0 ? `; and ${more} more` : '';
    throw packingFailed(`${this.#problems.join('; ')}${rest}; correct this, or list it in .clocheignore`);
  }

  /** Returns the entries of a folder by their bytes, which does not depend on the file system. */
  #childrenOf(folder: string): { name: string; isDirectory: boolean }[] {
    // The types of Node.js lack names as bytes.
    const options = { encoding: 'buffer', bufferSize: 512 } as unknown as { encoding: 'utf8' };
    const listing = opendirSync(pathIn(this.#root, folder), options);
    const children: { name: string; isDirectory: boolean }[] = [];
    try {
      for (let child = listing.readSync(); child; child = listing.readSync()) {
        const { name } = child as unknown as Dirent<Buffer>;
        children.push({ name: name.toString('latin1'), isDirectory: child.isDirectory() });
        if (children.length > MAX_NAMES) throw packingFailed(`${shown(folder)} has more than ${MAX_NAMES} entries`);
      }
    } finally {
      listing.closeSync();
    }
    return children.sort((one, other) => (one.name < other.name ? -1 : 1));
  }

  #ignoreFilesIn(folder: string, children: readonly { name: string }[]): IgnoreFiles {
    const read = (name: string) => {
      const path = joined(folder, name);
      const isThere = children.some((child) => child.name === name);
      return isThere ? this.#attempt(path, () => readIgnoreFile(pathIn(this.#root, path))) : undefined;
    };
    return { gitignore: read('.gitignore'), clocheignore: read('.clocheignore') };
  }

  #add(name: string): void {
    const path = pathIn(this.#root, name);
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (!stat) return;
    const common = { name, mode: stat.mode & 0o777, mtimeMs: stat.mtimeMs, sizeBytes: 0, target: '' };
    if (stat.isDirectory()) this.#push({ ...common, kind: 'directory' });
    else if (stat.isFile()) {
      // A file that all users may read needs no check.
      if ((stat.mode & 0o444) !== 0o444) closeSync(openSync(path, READING));
      this.#push({ ...common, kind: 'file', sizeBytes: stat.size });
    } else if (stat.isSymbolicLink()) {
      const target = readlinkSync(path, { encoding: 'buffer' }).toString('latin1');
      requireInnerLink(name, target);
      this.#push({ ...common, kind: 'link', target });
    } else if (this.notes.length < MAX_NOTES) {
      const reason = stat.isSocket() ? 'socket' : stat.isFIFO() ? 'pipe' : 'device';
      this.notes.push({ path: shown(name), reason });
    }
  }

  #push(entry: Entry): void {
    this.entries.push(entry);
    if (this.entries.length <= this.#maxEntries) return;
    throw packingFailed(
      `it has more than ${this.#maxEntries} entries; list what the command does not need in .clocheignore`,
    );
  }

  /** Runs `act`. Keeps the failure of a file or link, so that the error names all of them. */
  #attempt<T>(path: string, act: () => T): T | undefined {
    try {
      return act();
    } catch (error) {
      const problem = problemOf(path, error);
      this.#problemCount += 1;
      if (this.#problems.length < MAX_PROBLEMS) this.#problems.push(problem);
      return undefined;
    }
  }
}

/** @throws the error if it is not about one file */
function problemOf(path: string, error: unknown): string {
  const { code, syscall, name, message } = error as NodeJS.ErrnoException;
  if (name === 'InvalidArchiveError') return message;
  if (syscall === undefined || code === undefined) throw error;
  return `${JSON.stringify(shown(path))} cannot be read (${code})`;
}
