import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  closeSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readSync,
  realpathSync,
  rmSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { dataRanges } from '../linux/data-ranges.ts';

const execute = promisify(execFile);

/** Bytes of disk for each inode: the default of ext4, so a disk holds as many small files as users expect. */
const BYTES_PER_INODE = 16_384;
/** Disk sizes kept in memory; about 150 kB each. */
const MAX_REMEMBERED = 32;

/** A written part of a fresh file system; the space between extents is a hole. */
interface Extent {
  offset: number;
  bytes: Buffer;
}

/**
 * Creates files with a fresh ext4 file system. It is made once for each size and then written from memory: a few
 * hundred kilobytes however large the disk, since the rest is holes.
 */
export class DiskImages {
  readonly #dir: string;
  readonly #remembered = new Map<number, Promise<Extent[]>>();

  /** @param dir folder for images only; images that a crash left there are removed. */
  constructor(dir: string) {
    rmSync(dir, { recursive: true, force: true });
    mkdirSync(dir, { mode: 0o700 });
    this.#dir = realpathSync(dir);
  }

  /**
   * Returns the path that an image had before it was unlinked. The kernel still reports this path for its loop device.
   */
  pathOf(name: string): string {
    // A hash of the name, because the kernel shows this path inside sandboxes, and it must not reveal a sandbox's id.
    return join(this.#dir, `${createHash('sha256').update(name).digest('hex').slice(0, 32)}.img`);
  }

  /**
   * Returns a descriptor of a new image, which the caller closes. The file is unlinked: the kernel frees its blocks
   * when the last user is gone, however that user ended.
   */
  async open(diskBytes: number, name: string): Promise<number> {
    const extents = await this.#extents(diskBytes);
    const path = this.pathOf(name);
    const fd = openSync(path, 'wx+', 0o600);
    try {
      unlinkSync(path);
      ftruncateSync(fd, diskBytes);
      for (const { offset, bytes } of extents) writeSync(fd, bytes, 0, bytes.length, offset);
      return fd;
    } catch (error) {
      closeSync(fd);
      throw error;
    }
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
 * Returns the options of mkfs: no journal, since the disk does not outlive a crash; no blocks reserved for root; inode
 * tables left as holes, which read as the required zeros.
 */
function mkfsArguments(path: string): string[] {
  const features = '^has_journal,^resize_inode,uninit_bg';
  return ['-q', '-F', '-m', '0', '-i', String(BYTES_PER_INODE), '-O', features].concat([
    '-E',
    'lazy_itable_init=1,nodiscard',
    path,
  ]);
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
