import { posix } from 'node:path';
import { type ArchiveEntry, invalidArchive } from './archive-entry.ts';
import { entryPath, linkedPath, refusedEntry, requireInnerLink } from './entry-name.ts';

/** Limit of all paths of an archive together, so that a tree fits into memory. */
const MAX_PATHS_BYTES = 64 * 1024 * 1024;

type EntryType = ArchiveEntry['type'];

/** Place of an entry in the tree of its archive. Paths are relative to the target folder. */
export interface PlacedEntry {
  readonly path: string;
  /** Folders above the entry that no earlier entry has made, outermost first. */
  readonly missingFolders: readonly string[];
  /** Whether an earlier entry has the same path. The last one counts, as in archives that were appended to. */
  readonly isThere: boolean;
  /** Path of the file that a hard link shares; undefined for other entries. */
  readonly linkedFile: string | undefined;
}

/**
 * The tree that the entries of an untrusted archive make, without their contents. Holds every rule about where an entry
 * may be, for the code that unpacks an archive and for the code that only judges it.
 */
export class ArchiveTree {
  readonly #maxEntries: number;
  readonly #types = new Map<string, EntryType>();
  #entries = 0;
  #pathsBytes = 0;

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get entries(): number {
    return this.#entries;
  }

  /**
   * Adds the next entry. Returns undefined for the target folder itself, which exists. Throws `bad_archive` for an
   * entry that leads out of the target folder, or that contradicts an earlier one.
   */
  add({ name, type, target }: Pick<ArchiveEntry, 'name' | 'type' | 'target'>): PlacedEntry | undefined {
    this.#entries += 1;
    if (this.#entries > this.#maxEntries) {
      throw refusedEntry(name, `is over the limit: an archive cannot have more than ${this.#maxEntries} entries`);
    }
    const path = entryPath(name);
    if (path === '' && type === 'directory') return undefined;
    if (path === '') throw refusedEntry(name, 'has no name');
    const missingFolders = this.#addFoldersAbove(path);
    const isThere = this.#requireReplaceable(path, type);
    if (type === 'symlink') requireInnerLink(path, target);
    const linkedFile = type === 'hardlink' ? this.#linkedFile(path, target) : undefined;
    this.#set(path, linkedFile === undefined ? type : 'file');
    return { path, missingFolders, isThere, linkedFile };
  }

  #linkedFile(path: string, target: string): string {
    const file = linkedPath(path, target);
    if (this.#types.get(file) === 'file' && file !== path) return file;
    throw refusedEntry(path, 'is a hard link to a file that does not precede it in the archive');
  }

  #addFoldersAbove(path: string): string[] {
    const missing: string[] = [];
    for (let folder = posix.dirname(path); folder !== '.'; folder = posix.dirname(folder)) {
      const type = this.#types.get(folder);
      if (type === 'directory') break;
      if (type !== undefined) throw refusedEntry(path, 'lies below an entry that is not a directory');
      missing.push(folder);
    }
    missing.reverse();
    for (const folder of missing) this.#set(folder, 'directory');
    if (this.#types.size > 2 * this.#maxEntries) throw refusedEntry(path, 'has one directory too many above it');
    return missing;
  }

  #requireReplaceable(path: string, type: EntryType): boolean {
    const before = this.#types.get(path);
    if (before === undefined) return false;
    if ((before === 'directory') !== (type === 'directory')) {
      throw refusedEntry(path, 'occurs both as a directory and as a file');
    }
    return true;
  }

  #set(path: string, type: EntryType): void {
    if (!this.#types.has(path)) this.#pathsBytes += path.length;
    if (this.#pathsBytes > MAX_PATHS_BYTES) throw invalidArchive(`its paths take more than ${MAX_PATHS_BYTES} bytes`);
    this.#types.set(path, type);
  }
}
