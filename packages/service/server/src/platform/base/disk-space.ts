import { statfs } from 'node:fs/promises';
import { defaultDiskReserveBytes } from '@cloche/layout';
import type { Logger } from 'pino';
import { AppError } from './app-error.ts';
import { type Clock, isWithin } from './clock.ts';

/** Longest time that a reading of the free space is reused. */
export const FRESH_MS = 1_000;
/** Shortest time between two log lines about the same shortage. */
const LOG_EVERY_MS = 60_000;
const RETRY_AFTER_SECONDS = 30;

/** Contents leave so many reserves free. */
const CONTENT_RESERVES = 1.5;

interface Left {
  readonly freeBytes: number;
  readonly reserveBytes: number;
}

export interface Volume {
  readonly freeBytes: number;
  readonly totalBytes: number;
}

export interface DiskSpaceDeps {
  readonly clock: Clock;
  readonly log: Pick<Logger, 'error'>;
  /** Bytes of the volume to keep free; by default a share of its size. */
  readonly reserveBytes?: number | undefined;
  readonly read?: (folder: string) => Promise<Volume>;
}

/**
 * Keeps a reserve of a folder's volume free for existing data: the database and the disks of live sandboxes. Call
 * `require` before an operation that needs more space.
 */
export class DiskSpace {
  readonly #folder: string;
  readonly #deps: DiskSpaceDeps;
  #reading: { readonly at: number; readonly left: Promise<Left> } | undefined;
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(folder: string, deps: DiskSpaceDeps) {
    this.#folder = folder;
    this.#deps = deps;
  }

  /**
   * @param contentBytes bytes that contents are going to take. They leave half of the reserve free in addition to the
   * reserve, so that contents of one organization do not make other operations fail.
   * @throws AppError `unavailable` while less than the reserve is free.
   */
  async require(contentBytes?: number): Promise<void> {
    const { freeBytes, reserveBytes } = await this.#look();
    const isContent = contentBytes !== undefined;
    if (freeBytes - (contentBytes ?? 0) >= reserveBytes * (isContent ? CONTENT_RESERVES : 1)) return;
    throw new AppError('unavailable', 'The service has too little free disk space; try again later.', {
      retryAfterSeconds: RETRY_AFTER_SECONDS,
    });
  }

  #look(): Promise<Left> {
    const now = this.#deps.clock.now();
    if (!this.#reading || !isWithin(FRESH_MS, this.#reading.at, now))
      this.#reading = { at: now, left: this.#read(now) };
    return this.#reading.left;
  }

  async #read(now: number): Promise<Left> {
    const { read = readVolume, reserveBytes, log } = this.#deps;
    // A missing or unreadable folder counts as having space: the operation that uses it reports the error.
    const volume = await read(this.#folder).catch(() => undefined);
    if (!volume) return { freeBytes: Number.POSITIVE_INFINITY, reserveBytes: 0 };
    const { freeBytes, totalBytes } = volume;
    const reserve = reserveBytes ?? defaultDiskReserveBytes(totalBytes);
    const left = { freeBytes, reserveBytes: reserve };
    if (freeBytes >= reserve) return left;
    if (now - this.#loggedAt >= LOG_EVERY_MS) {
      this.#loggedAt = now;
      log.error(
        { folder: this.#folder, freeBytes, reserveBytes: reserve, totalBytes },
        'free disk space is below the reserve: requests that need more are refused',
      );
    }
    return left;
  }
}

async function readVolume(folder: string): Promise<Volume> {
  const { blocks, bavail, bsize } = await statfs(folder);
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
}
