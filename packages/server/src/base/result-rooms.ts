import type { OrgId } from '@cloche/contract';
import type { DiskSpace } from './disk-space.ts';
import { Turns } from './turns.ts';

/** Bytes of the server's memory that every result may hold. A larger result waits for a turn. */
export const SMALL_RESULT_BYTES = 256 * 1024;
/** Larger results that are held at once: each is at most as large as the contract's bounds on output together. */
const IN_ALL = 8;
const PER_ORGANIZATION = 4;

/**
 * Bounds the memory that results take while they arrive and until they are stored. Waiting for a turn stops the reading
 * of what the agent sends, and counts against the time of the run.
 */
export class ResultRooms {
  readonly #perOrganization: number;
  readonly #space: Pick<DiskSpace, 'require'> | undefined;
  readonly #turns: Turns;
  readonly #byOrganization = new Map<OrgId, Turns>();

  /** @param space what a large result asks before it is gathered, since it will be stored. */
  constructor({
    inAll = IN_ALL,
    perOrganization = PER_ORGANIZATION,
    space = undefined as Pick<DiskSpace, 'require'> | undefined,
  } = {}) {
    this.#space = space;
    this.#turns = new Turns(inAll);
    this.#perOrganization = perOrganization;
  }

  /** For the result of one request, which disposes of it. */
  open(orgId: OrgId): ResultRoom {
    return new ResultRoom((signal) => this.#takeTurn(orgId, signal));
  }

  async #takeTurn(orgId: OrgId, signal: AbortSignal): Promise<() => void> {
    await this.#space?.require();
    const own = this.#byOrganization.get(orgId) ?? new Turns(this.#perOrganization);
    this.#byOrganization.set(orgId, own);
    // The organization's turn first, so that its requests in line take no turn that others could use.
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
export class ResultRoom implements Disposable {
  readonly #takeTurn: (signal: AbortSignal) => Promise<() => void>;
  #heldBytes = 0;
  #isTaking = false;
  #giveTurn: (() => void) | undefined;
  #isReleased = false;

  constructor(takeTurn: (signal: AbortSignal) => Promise<() => void>) {
    this.#takeTurn = takeTurn;
  }

  /** Undefined when `bytes` more may be held, else a promise of it, which rejects when `signal` aborts or the disk is full. */
  hold(bytes: number, signal: AbortSignal): Promise<void> | undefined {
    this.#heldBytes += bytes;
    if (this.#heldBytes <= SMALL_RESULT_BYTES || this.#isTaking) return undefined;
    this.#isTaking = true;
    return this.#take(signal);
  }

  /** Nothing is held any more. Idempotent. */
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
