import type { OrgId } from '@cloche/contract';
import { Semaphore } from '@cloche/node-support';
import type { DiskSpace } from './disk-space.ts';

/** Bytes of memory that each result may use without waiting. A larger result waits for a slot. */
export const SMALL_RESULT_BYTES = 256 * 1024;
/**
 * Most larger results in memory at once. Each is at most as large as the contract's limits on output allow in total.
 */
const IN_ALL = 8;
const PER_ORGANIZATION = 4;

/**
 * Limits the memory of results between their arrival and their storage. While a result waits for a slot, the server
 * does not read from its agent, and the time counts against the run.
 */
export class ResultMemoryLimit {
  readonly #perOrganization: number;
  readonly #space: Pick<DiskSpace, 'require'> | undefined;
  readonly #slots: Semaphore;
  readonly #byOrganization = new Map<OrgId, Semaphore>();

  /** @param space the disk check that precedes a large result, since the result will be stored. */
  constructor({
    total = IN_ALL,
    perOrganization = PER_ORGANIZATION,
    space = undefined as Pick<DiskSpace, 'require'> | undefined,
  } = {}) {
    this.#space = space;
    this.#slots = new Semaphore(total);
    this.#perOrganization = perOrganization;
  }

  /** Returns the memory account for the result of one request. The request disposes of it. */
  open(orgId: OrgId): ResultMemory {
    return new ResultMemory((signal) => this.#acquire(orgId, signal));
  }

  async #acquire(orgId: OrgId, signal: AbortSignal): Promise<Disposable> {
    await this.#space?.require();
    const own = this.#byOrganization.get(orgId) ?? new Semaphore(this.#perOrganization);
    this.#byOrganization.set(orgId, own);
    using slots = new DisposableStack();
    slots.defer(() => {
      if (own.isIdle) this.#byOrganization.delete(orgId);
    });
    // The organization's slot is taken first, so that its waiting requests do not use up slots of other organizations.
    slots.use(await own.acquire(signal));
    slots.use(await this.#slots.acquire(signal));
    return slots.move();
  }
}

/** The memory of one request's result. */
export class ResultMemory implements Disposable {
  readonly #acquire: (signal: AbortSignal) => Promise<Disposable>;
  #heldBytes = 0;
  #isTaking = false;
  #slot: Disposable | undefined;
  #isReleased = false;

  constructor(acquire: (signal: AbortSignal) => Promise<Disposable>) {
    this.#acquire = acquire;
  }

  /** Returns memory that has no limit. */
  static unlimited(): ResultMemory {
    return new ResultMemory(async () => new DisposableStack());
  }

  /**
   * Counts `bytes` more. Returns undefined if there is room for them, else a promise that resolves when there is room.
   * The promise rejects when `signal` aborts or the disk is full.
   */
  hold(bytes: number, signal: AbortSignal): Promise<void> | undefined {
    this.#heldBytes += bytes;
    if (this.#heldBytes <= SMALL_RESULT_BYTES || this.#isTaking) return undefined;
    this.#isTaking = true;
    return this.#take(signal);
  }

  /** Gives up the room and its slot. Idempotent. */
  release(): void {
    this.#isReleased = true;
    this.#slot?.[Symbol.dispose]();
    this.#slot = undefined;
  }

  [Symbol.dispose](): void {
    this.release();
  }

  async #take(signal: AbortSignal): Promise<void> {
    const slot = await this.#acquire(signal);
    if (this.#isReleased) slot[Symbol.dispose]();
    else this.#slot = slot;
  }
}
