import type { OrgId } from '@cloche/contract';
import { AppError } from '../../../platform/base/app-error.ts';
import type { DiskSpace } from '../../../platform/base/disk-space.ts';

const RETRY_AFTER_SECONDS = 5;

/** Bytes that one content may still take. */
export interface ArrivingContent extends Disposable {
  /** Reserves up to `sizeBytes`, and checks the space again. Call it before more is written. @throws AppError */
  grow(sizeBytes: number): Promise<void>;
  /** Tells how many of the bytes are written. */
  wrote(sizeBytes: number): void;
}

/**
 * Reserves the disk space of contents before they are received. Those of one organization have a limit together, and all
 * of them leave the reserve of the disk free.
 */
export class ArrivingBytes {
  readonly #space: Pick<DiskSpace, 'require'> | undefined;
  readonly #perOrganization: number;
  readonly #byOrganization = new Map<OrgId, number>();
  /** Bytes that are reserved and not written. */
  #unwritten = 0;

  constructor(space: Pick<DiskSpace, 'require'> | undefined, perOrganization: number) {
    this.#space = space;
    this.#perOrganization = perOrganization;
  }

  /** @throws AppError `rate_limited` for too many bytes at a time, `unavailable` if the disk has no room for them */
  async reserve(orgId: OrgId, sizeBytes: number): Promise<ArrivingContent> {
    let [reserved, written] = [0, 0];
    const grow = async (to: number) => {
      const more = Math.max(0, to - reserved);
      this.#take(orgId, more);
      reserved += more;
      await this.#space?.require(this.#unwritten);
    };
    const content: ArrivingContent = {
      grow,
      wrote: (bytes) => {
        this.#unwritten -= Math.min(bytes, reserved) - written;
        written = Math.min(bytes, reserved);
      },
      [Symbol.dispose]: () => {
        this.#unwritten -= reserved - written;
        this.#add(orgId, -reserved);
        [reserved, written] = [0, 0];
      },
    };
    try {
      await grow(sizeBytes);
      return content;
    } catch (error) {
      content[Symbol.dispose]();
      throw error;
    }
  }

  #take(orgId: OrgId, bytes: number): void {
    const used = this.#byOrganization.get(orgId) ?? 0;
    // A content that is alone is limited by its own maximum.
    if (bytes > 0 && used > 0 && used + bytes > this.#perOrganization) {
      const message = `The organization has ${used} bytes of uploads and exports under way; wait until some have ended.`;
      throw new AppError('rate_limited', message, { retryAfterSeconds: RETRY_AFTER_SECONDS });
    }
    this.#add(orgId, bytes);
    this.#unwritten += bytes;
  }

  #add(orgId: OrgId, bytes: number): void {
    const used = (this.#byOrganization.get(orgId) ?? 0) + bytes;
    if (used > 0) this.#byOrganization.set(orgId, used);
    else this.#byOrganization.delete(orgId);
  }
}
