import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  futimesSync,
  lchownSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  symlinkSync,
  writeSync,
} from 'node:fs';
import { type ArchiveEntry, entryPath, refusedEntry } from '@cloche/archive';
import { joined, type RootFolder } from './root-folder.ts';

const WHITEOUT = '.wh.';
const OPAQUE = '.wh..wh..opq';
/** User and group ids of a sandbox. */
const MAX_ID = 65_535;

export interface UnpackCounts {
  entries: number;
  /** Sum over all files of all layers. */
  sizeBytes: number;
}

/** Applies the entries of one layer over those below it. Throws `bad_archive`. */
export async function applyLayer(
  entries: AsyncIterable<ArchiveEntry>,
  root: RootFolder,
  counts: UnpackCounts,
  maxEntries: number,
): Promise<void> {
  const layer = new Layer(root, counts);
  for await (const entry of entries) {
    counts.entries += 1;
    if (counts.entries > maxEntries)
      throw refusedEntry(entry.name, `is over the limit: an image cannot have more than ${maxEntries} entries`);
    await layer.add(entry);
  }
}

class Layer {
  readonly #root: RootFolder;
  readonly #counts: UnpackCounts;
  /** Paths that this layer has made, and the directories above them. The layer's own whiteouts do not remove these. */
  readonly #made = new Set<string>();

  constructor(root: RootFolder, counts: UnpackCounts) {
    this.#root = root;
    this.#counts = counts;
  }

  async add(entry: ArchiveEntry): Promise<void> {
    const path = pathOf(entry.name);
    if (path === '') return;
    const name = path.slice(path.lastIndexOf('/') + 1);
    if (name.startsWith(WHITEOUT)) {
      this.#whiteOut(path, name);
      return;
    }
    const place = this.#root.resolve(path);
    await this.#make(place, entry);
    for (let at = place; at !== '' && !this.#made.has(at); at = at.slice(0, Math.max(0, at.lastIndexOf('/'))))
      this.#made.add(at);
  }

  #whiteOut(path: string, name: string): void {
    const folder = this.#root.directory(path.slice(0, Math.max(0, path.length - name.length - 1)));
    if (name === OPAQUE) {
      this.#empty(folder);
      return;
    }
    // Other names with this prefix are internal records of the program that made the layer.
    if (name.startsWith(WHITEOUT + WHITEOUT)) return;
    const hidden = name.slice(WHITEOUT.length);
    if (hidden === '' || hidden === '.' || hidden === '..') throw refusedEntry(path, 'hides no entry');
    const place = joined(folder, hidden);
    if (!this.#made.has(place)) this.#root.remove(place);
  }

  /** Removes from a directory what lower layers have put there. */
  #empty(folder: string): void {
    for (const name of readdirSync(this.#root.at(folder), 'latin1')) {
      const inner = joined(folder, name);
      if (!this.#made.has(inner)) this.#root.remove(inner);
      else if (this.#root.stat(inner)?.isDirectory()) this.#empty(inner);
    }
  }

  async #make(place: string, entry: ArchiveEntry): Promise<void> {
    const { name, type, mode, uid = 0, gid = 0 } = entry;
    if (!(uid <= MAX_ID && gid <= MAX_ID))
      throw refusedEntry(name, `belongs to ${uid}:${gid}; the ids of a sandbox end at ${MAX_ID}`);
    const linked = type === 'hardlink' ? this.#linked(place, entry) : undefined;
    const there = this.#root.stat(place);
    if (there && !(there.isDirectory() && type === 'directory')) this.#root.remove(place);
    const at = this.#root.at(place);
    if (linked !== undefined) linkSync(this.#root.at(linked), at);
    else if (type === 'symlink') symlinkSync(targetOf(entry), at);
    else if (type === 'file') {
      await this.#write(at, entry, uid, gid);
      return;
    } else if (type === 'directory') {
      if (!there?.isDirectory()) mkdirSync(at, { mode: 0o700 });
      lchownSync(at, uid, gid);
      chmodSync(at, mode);
      return;
    }
    if (type === 'symlink') lchownSync(at, uid, gid);
  }

  #linked(place: string, { name, target }: ArchiveEntry): string {
    const linked = this.#root.resolve(pathOf(target));
    const stat = this.#root.stat(linked);
    if (linked === place || !stat || stat.isDirectory())
      throw refusedEntry(
        name,
        `is a hard link to ${JSON.stringify(target)}, which is no file of this layer or one below it`,
      );
    return linked;
  }

  async #write(at: Buffer, { content, mode, mtime }: ArchiveEntry, uid: number, gid: number): Promise<void> {
    const fd = openSync(at, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600);
    try {
      for await (const chunk of content as AsyncIterable<Buffer>) {
        this.#counts.sizeBytes += chunk.length;
        for (let written = 0; written < chunk.length; ) written += writeSync(fd, chunk, written);
      }
      // Changing the owner clears set-id bits, so the mode follows.
      fchownSync(fd, uid, gid);
      fchmodSync(fd, mode);
      futimesSync(fd, mtime, mtime);
    } finally {
      closeSync(fd);
    }
  }
}

/** Returns the path below the root. Some programs write absolute names. */
function pathOf(name: string): string {
  return entryPath(name.replace(/^\/+/, ''));
}

function targetOf({ name, target }: ArchiveEntry): Buffer {
  if (target === '' || target.includes('\0')) throw refusedEntry(name, 'is a link with an invalid target');
  return Buffer.from(target, 'latin1');
}
