import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  ftruncateSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  realpathSync,
  rmSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { truncate } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { dataRanges } from '../linux/data-ranges.ts';
import { canNameFiles, handleOf, nameFile, openNamelessFile, shownPathOf } from '../linux/nameless-files.ts';

const execute = promisify(execFile);

/** Bytes of disk for each inode: the default of ext4, so a disk holds as many small files as users expect. */
const BYTES_PER_INODE = 16_384;
/** Disk sizes kept in memory; about 150 kB each. */
const MAX_REMEMBERED = 32;

/** A fresh file system, to be written to an image. */
interface PreparedImage {
  diskBytes: number;
  extents: readonly Extent[];
}

/** A written part of a fresh file system; the space between extents is a hole. */
interface Extent {
  offset: number;
  bytes: Buffer;
}

/** Identifies the image of an instance's disk, in the instance's record. */
export interface ImageReference {
  /** File name that the kernel shows for the image's loop device. */
  name: string;
  /** The kernel's handle of an image that was created without a name; absent if the image has one. */
  handle?: string;
}

/** The image of a disk, to be mounted. The caller closes `fd`. */
export interface OpenImage {
  readonly fd: number;
  readonly reference: ImageReference;
}

/**
 * The images of the disks of instances. A fresh file system is made once for each size and then written from memory: a
 * few hundred kilobytes however large the disk, since the rest is holes.
 *
 * An image has no name, so the kernel frees its blocks when the last user is gone, however that user ended. Where the
 * file system permits it, `name` gives it one, by which it outlives its instance.
 */
export class DiskImages {
  /** Whether images can be named. */
  readonly canName: boolean;
  readonly #dir: string;
  readonly #remembered = new Map<number, Promise<Extent[]>>();

  /**
   * @param dir folder for images only; images that a crash left there are removed
   * @param keys instances whose images stay
   */
  constructor(dir: string, keys: readonly string[] = []) {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    this.#dir = realpathSync(dir);
    const kept = new Set(keys.map((key) => this.#nameOf(key)));
    for (const name of readdirSync(dir)) if (!kept.has(name)) rmSync(join(dir, name), { recursive: true });
    this.canName = canNameFiles(dir);
  }

  /**
   * Returns the path that the kernel shows for the image's loop device, even if the image has no name.
   * @param reference absent in records of earlier releases, whose images had the name of their instance
   */
  shownPath(key: string, reference?: ImageReference): string {
    return join(this.#dir, reference?.name ?? this.#nameOf(key));
  }

  /** Resolves when `create` can make images of that size. */
  async prepare(diskBytes: number): Promise<PreparedImage> {
    return { diskBytes, extents: await this.#extents(diskBytes) };
  }

  /** Creates an image without a name. */
  create(key: string, { diskBytes, extents }: PreparedImage): OpenImage {
    const fd = this.canName ? openNamelessFile(this.#dir) : openUnlinked(this.#pathOf(key));
    try {
      ftruncateSync(fd, diskBytes);
      for (const { offset, bytes } of extents) writeSync(fd, bytes, 0, bytes.length, offset);
      return { fd, reference: this.#referenceOf(fd, this.canName ? handleOf(fd) : undefined) };
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }

  /** Opens a kept image as that of another instance, under a name that stays until `remove`. */
  openKept(key: string, keptImage: string): OpenImage {
    const path = this.#pathOf(key);
    rmSync(path, { force: true });
    linkSync(keptImage, path);
    const fd = openSync(path, 'r+');
    return { fd, reference: this.#referenceOf(fd) };
  }

  /**
   * Gives the image of an instance one more name. It also gets one here, which stays until `remove`: a file that has
   * lost its last name can never get another one. Idempotent.
   */
  name(key: string, { handle }: ImageReference, keptImage: string): void {
    const path = this.#pathOf(key);
    if (!existsSync(path) && handle !== undefined) nameFile(handle, this.#dir, path);
    if (existsSync(keptImage)) {
      if (statSync(keptImage).ino === statSync(path).ino) return;
      rmSync(keptImage);
    }
    linkSync(path, keptImage);
  }

  /** Removes the instance's own name of its image. Idempotent. */
  remove(key: string): void {
    rmSync(this.#pathOf(key), { force: true });
  }

  #pathOf(key: string): string {
    return join(this.#dir, this.#nameOf(key));
  }

  /** Returns a hash, because the kernel shows the path inside sandboxes, and it must not reveal a sandbox's id. */
  #nameOf(key: string): string {
    return `${createHash('sha256').update(key).digest('hex').slice(0, 32)}.img`;
  }

  #referenceOf(fd: number, handle?: string): ImageReference {
    return { name: basename(shownPathOf(fd)), ...(handle !== undefined && { handle }) };
  }

  async #extents(diskBytes: number): Promise<Extent[]> {
    const remembered = this.#remembered.get(diskBytes);
    if (remembered) return remembered;

    const made = this.#make(diskBytes);
    this.#remembered.set(diskBytes, made);
    const [oldest] = this.#remembered.keys();
    if (this.#remembered.size > MAX_REMEMBERED && oldest !== undefined) this.#remembered.delete(oldest);
    made.catch(() => this.#remembered.delete(diskBytes));
    return made;
  }

  async #make(diskBytes: number): Promise<Extent[]> {
    const path = join(this.#dir, `pristine-${diskBytes}.img`);
    rmSync(path, { force: true });
    try {
      closeSync(openSync(path, 'wx', 0o600));
      await truncate(path, diskBytes);
      await execute('mkfs.ext4', mkfsArguments(path));
      return readExtents(path);
    } finally {
      rmSync(path, { force: true });
    }
  }
}

/**
 * Returns the options of mkfs: no journal, since a disk that outlives a crash is checked before its next use; no blocks
 * reserved for root; inode tables left as holes, which read as the required zeros.
 */
function mkfsArguments(path: string): string[] {
  const features = '^has_journal,^resize_inode,uninit_bg';
  return ['-q', '-F', '-m', '0', '-i', String(BYTES_PER_INODE), '-O', features].concat([
    '-E',
    'lazy_itable_init=1,nodiscard',
    path,
  ]);
}

function openUnlinked(path: string): number {
  const fd = openSync(path, 'wx+', 0o600);
  unlinkSync(path);
  return fd;
}

function readExtents(path: string): Extent[] {
  const fd = openSync(path, 'r');
  try {
    return dataRanges(fd).map(({ from, to }) => {
      const bytes = Buffer.alloc(to - from);
      readSync(fd, bytes, 0, bytes.length, from);
      return { offset: from, bytes };
    });
  } finally {
    closeSync(fd);
  }
}
