import { type ArchiveEntry, entryPath, linkedPath, refusedEntry } from '@cloche/archive';
import { VERSION_FILES } from '../templates/cached-versions.ts';
import type { ArchivePart } from './archive-list.ts';

/** Entries of one folder, ten times those of the largest template. */
const MAX_ENTRIES = 400_000;
/** Characters of all names of one folder, which are in memory while it is unpacked. */
const MAX_NAME_BYTES = 64 * 1024 * 1024;
/** User and group ids of a sandbox. */
const MAX_ID = 65_535;
const MAX_TARGET_BYTES = 4095;
const MAX_MANIFEST_BYTES = 4 * 1024 * 1024;
const XATTR = /^(security\.capability|user\.[\x21-\x7e]{1,250})$/;
/** Set-id bits, and bits by which others than the owner write. */
const UNSAFE_GUEST_MODE = 0o6022;

export interface TreeLimits {
  readonly maxEntries?: number;
  readonly maxNameBytes?: number;
}

/**
 * Checks the entries of an untrusted tar before any of them is unpacked.
 *
 * SECURITY: unpacking what was admitted writes nowhere outside of the folder: each entry is in a directory that the same
 * tar has made before, no path comes twice, and hard links lead to its own files (tree-check.test.ts).
 */
export class TreeCheck {
  readonly #kind: ArchivePart['kind'];
  readonly #maxEntries: number;
  readonly #types = new Map<string, ArchiveEntry['type']>([['', 'directory']]);
  #nameBytesLeft: number;

  constructor(kind: ArchivePart['kind'], limits: TreeLimits = {}) {
    this.#kind = kind;
    this.#maxEntries = limits.maxEntries ?? MAX_ENTRIES;
    this.#nameBytesLeft = limits.maxNameBytes ?? MAX_NAME_BYTES;
  }

  /** Returns the path of an entry below the folder, empty for the folder itself. Throws `bad_archive`. */
  admit(entry: ArchiveEntry): string {
    const { name, type } = entry;
    const path = entryPath(name);
    if (path === '') {
      if (type !== 'directory') throw refusedEntry(name, 'stands for the folder itself, and is no directory');
      return path;
    }
    this.#nameBytesLeft -= path.length;
    if (this.#types.size > this.#maxEntries || this.#nameBytesLeft < 0)
      throw refusedEntry(name, `is over the limit of ${this.#maxEntries} entries or of their names`);
    if (this.#types.has(path)) throw refusedEntry(name, 'is there twice');
    const parent = path.slice(0, Math.max(0, path.lastIndexOf('/')));
    if (this.#types.get(parent) !== 'directory') throw refusedEntry(name, 'is in no directory of the archive');
    this.#requireOwner(entry);
    this.#requireLink(path, entry);
    for (const attribute of entry.xattrs?.keys() ?? [])
      if (!XATTR.test(attribute)) throw refusedEntry(name, `has the attribute ${JSON.stringify(attribute)}`);
    if (this.#kind === 'guest') requireGuestEntry(entry);
    else if (parent === '') requireVersionFile(path, entry);
    this.#types.set(path, type);
    return path;
  }

  /** Throws `bad_archive` if the tar lacked a file of every template version. */
  requireWhole(): void {
    if (this.#kind === 'guest') return;
    for (const name of Object.values(VERSION_FILES)) if (!this.#types.has(name)) throw refusedEntry(name, 'is missing');
  }

  #requireOwner({ name, uid = 0, gid = 0 }: ArchiveEntry): void {
    const isId = (id: number) => Number.isInteger(id) && id >= 0 && id <= MAX_ID;
    if (!isId(uid) || !isId(gid))
      throw refusedEntry(name, `belongs to ${uid}:${gid}; the ids of a sandbox end at ${MAX_ID}`);
  }

  #requireLink(path: string, { name, type, target }: ArchiveEntry): void {
    if (type === 'symlink' && (target === '' || target.includes('\0') || target.length > MAX_TARGET_BYTES))
      throw refusedEntry(name, 'is a link with an invalid target');
    if (type === 'hardlink' && this.#types.get(linkedPath(path, target)) !== 'file')
      throw refusedEntry(name, `is a hard link to ${JSON.stringify(target.slice(0, 200))}, which is no file before it`);
  }
}

function requireVersionFile(path: string, { name, type, sizeBytes }: ArchiveEntry): void {
  const isRoot = path === VERSION_FILES.root && type === 'directory';
  const isFile = (path === VERSION_FILES.manifest || path === VERSION_FILES.recipeDigest) && type === 'file';
  if (!isRoot && !isFile) throw refusedEntry(name, 'is no part of a template version');
  if (isFile && sizeBytes > MAX_MANIFEST_BYTES) throw refusedEntry(name, 'is too large');
}

function requireGuestEntry({ name, type, mode, uid = 0, gid = 0, xattrs }: ArchiveEntry): void {
  if (type !== 'file' && type !== 'directory') throw refusedEntry(name, 'is a link among the guest files');
  if (uid !== 0 || gid !== 0 || xattrs !== undefined || (mode & UNSAFE_GUEST_MODE) !== 0)
    throw refusedEntry(name, 'has an owner, a mode or an attribute that guest files do not have');
}
