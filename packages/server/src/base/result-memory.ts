import type { OrgId } from '@cloche/contract';
import type { DiskSpace } from './disk-space.ts';
import { Turns } from './turns.ts';

/** Bytes of memory that each result may use without waiting. A larger result waits for a turn. */
export const SMALL_RESULT_BYTES = 256 * 1024;
/**
 * Most larger results in memory at once. Each is at most as large as the contract's limits on output allow in total.
 */
const IN_ALL = 8;
const PER_ORGANIZATION = 4;

/**
 * Limits the memory of results between their arrival and their storage. While a result waits for a turn, the server
 * does not read from its agent, and the time counts against the run.
 */
export class ResultMemoryLimit {
  readonly #perOrganization: number;
  readonly #space: Pick<DiskSpace, 'require'> | undefined;
  readonly #turns: Turns;
  readonly #byOrganization = new Map<OrgId, Turns>();

  /** @param space the disk check that precedes a large result, since the result will be stored. */
  constructor({
    total = IN_ALL,
    perOrganization = PER_ORGANIZATION,
    space = undefined as Pick<DiskSpace, 'require'> | undefined,
  } = {}) {
    this.#space = space;
    this.#turns = new Turns(total);
    this.#perOrganization = perOrganization;
  }

  /** Returns the memory account for the result of one request. The request disposes of it. */
  open(orgId: OrgId): ResultMemory {
    return new ResultMemory((signal) => this.#takeTurn(orgId, signal));
  }

  async #takeTurn(orgId: OrgId, signal: AbortSignal): Promise<() => void> {
    await this.#space?.require();
    const own = this.#byOrganization.get(orgId) ?? new Turns(this.#perOrganization);
    this.#byOrganization.set(orgId, own);
    // The organization's turn is taken first, so that its waiting requests do not use up turns of other organizations.
    await own.take(signal);
    const giveOwn = () => {
      own.give();
      if (own.areFree) this.#byOrganization.delete(orgId);
    };
    try {
      await this.#turns.take(signal);
    } catch (error) {
      giveOwn();
      throw error;
    }
    return () => {
      this.#turns.give();
      giveOwn();
    };
  }
}

/** The memory of one request's result. */
export class ResultMemory implements Disposable {
  readonly #takeTurn: (signal: AbortSignal) => Promise<() => void>;
  #heldBytes = 0;
  #isTaking = false;
  #giveTurn: (() => void) | undefined;
  #isReleased = false;

  constructor(takeTurn: (signal: AbortSignal) => Promise<() => void>) {
    this.#takeTurn = takeTurn;
  }

  /**
   * Counts `bytes` more. Returns undefined when there is room for them now, else a promise that resolves when there is
   * room. The promise rejects when `signal` aborts or the disk is full.
   */
  hold(bytes: number, signal: AbortSignal): Promise<void> | undefined {
    this.#heldBytes += bytes;
    if (this.#heldBytes <= SMALL_RESULT_BYTES || this.#isTaking) return undefined;
    this.#isTaking = true;
    return this.#take(signal);
  }

  /** Gives up the room and its turn. Idempotent. */
  release(): void {
    this.#isReleased = true;
    this.#giveTurn?.();
    this.#giveTurn = undefined;
  }

  [Symbol.dispose](): void {
    this.release();
  }

  async #take(signal: AbortSignal): Promise<void> {
    const give = await this.#takeTurn(signal);
    if (this.#isReleased) give();
    else this.#giveTurn = give;
  }
}
