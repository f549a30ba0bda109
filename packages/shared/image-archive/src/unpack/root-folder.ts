import { lstatSync, mkdirSync, readlinkSync, rmSync, type Stats } from 'node:fs';
import { refusedEntry } from '@cloche/archive';

const MAX_LINKS = 40;

/**
 * A root file system in a folder. Resolves paths as a process with this root would: links lead to places below the
 * folder, also absolute ones and those that climb. Paths have one character for each byte (Latin-1).
 *
 * SECURITY: no other process may change the folder meanwhile (unpack-image.test.ts).
 */
export class RootFolder {
  readonly #folder: string;
  /** Resolved directories, by their paths as written. */
  readonly #known = new Map<string, string>([['', '']]);

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Returns the place of a path that `directory` or `resolve` has returned, for a system call. */
  at(path: string): Buffer {
    return Buffer.from(path === '' ? this.#folder : `${this.#folder}/${path}`, 'latin1');
  }

  stat(path: string): Stats | undefined {
    return lstatSync(this.at(path), { throwIfNoEntry: false });
  }

  /** Returns the path without links on the way; a link at the end stays. Creates missing directories above it. */
  resolve(path: string): string {
    const slash = path.lastIndexOf('/');
    return joined(this.directory(path.slice(0, Math.max(0, slash))), path.slice(slash + 1));
  }

  /**
   * Returns the directory that a path means, and creates it if it is missing. Throws `bad_archive` for another entry.
   */
  directory(path: string): string {
    const known = this.#known.get(path);
    if (known !== undefined) return known;
    const found = this.#walk(path);
    this.#known.set(path, found);
    return found;
  }

  /** Removes a resolved entry with everything below it. */
  remove(path: string): void {
    rmSync(this.at(path), { recursive: true, force: true });
    // Any known directory may be below it, or reached by it.
    this.#known.clear();
    this.#known.set('', '');
  }

  #walk(path: string): string {
    const left = partsOf(path).reverse();
    let real: string[] = [];
    let links = 0;
    for (let part = left.pop(); part !== undefined; part = left.pop()) {
      if (part === '..') {
        real.pop();
        continue;
      }
      const next = [...real, part].join('/');
      const stat = this.stat(next);
      if (stat?.isSymbolicLink()) {
        links += 1;
        if (links > MAX_LINKS) throw refusedEntry(path, 'leads through too many links');
        const target = readlinkSync(this.at(next), 'latin1');
        if (target.startsWith('/')) real = [];
        left.push(...partsOf(target).reverse());
        continue;
      }
      if (stat === undefined) mkdirSync(this.at(next), { mode: 0o755 });
      else if (!stat.isDirectory()) throw refusedEntry(path, 'lies below an entry that is not a directory');
      real.push(part);
    }
    return real.join('/');
  }
}

export function joined(folder: string, name: string): string {
  return folder === '' ? name : `${folder}/${name}`;
}

function partsOf(path: string): string[] {
  return path.split('/').filter((part) => part !== '' && part !== '.');
}
