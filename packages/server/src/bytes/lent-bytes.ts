import { Readable } from 'node:stream';

/** Gives the memory of a piece back. Only the first call counts. */
export type GiveBack = () => void;
/** Takes pieces in their order; each is whole until it is given back. */
export type TakeBytes = (bytes: Uint8Array, giveBack: GiveBack) => void;

/** Where the pieces come from: it stops while too many of them are out, and goes on when one comes back. */
export interface Lender {
  /** Begins. The promise settles after the last piece, or rejects when there are fewer than were announced. */
  lend(take: TakeBytes): Promise<void>;
  /** Idempotent. */
  close(): void;
}

/**
 * A stream whose bytes can be had without one of its own buffers for each piece: whoever calls `lend` instead of reading
 * gets the memory that they arrived in, for a while. Read as a stream, it gives copies.
 */
export class LentBytes extends Readable {
  readonly #lender: Lender;
  #isLent = false;
  #giveBack: GiveBack | undefined;

  constructor(lender: Lender) {
    super();
    this.#lender = lender;
    // Of what is left alone nobody has to hear, as with the body of a request.
    this.on('error', () => undefined);
  }

  /** Once, and instead of reading. The stream closes when it settles. */
  async lend(take: TakeBytes): Promise<void> {
    this.#isLent = true;
    try {
      await this.#lender.lend(take);
    } finally {
      this.destroy();
    }
  }

  /** There will be no more of it than has arrived: it closes, unless someone has begun to take it, who hears of it. */
  giveUp(): void {
    if (!this.#isLent) this.destroy();
  }

  override _read(): void {
    this.#giveBack?.();
    this.#giveBack = undefined;
    if (this.#isLent) return;
    this.#isLent = true;
    const take: TakeBytes = (bytes, giveBack) => {
      if (this.push(Buffer.from(bytes))) giveBack();
      else this.#holdBack(giveBack);
    };
    this.#lender.lend(take).then(
      () => this.push(null),
      (error: Error) => this.destroy(error),
    );
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#lender.close();
    callback(error);
  }

  /** Until it is read on: pieces that are out stop the lender. */
  #holdBack(giveBack: GiveBack): void {
    const earlier = this.#giveBack;
    this.#giveBack = () => {
      earlier?.();
      giveBack();
    };
  }
}
