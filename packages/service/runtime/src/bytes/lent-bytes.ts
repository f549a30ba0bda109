import { Readable } from 'node:stream';

/** Returns a piece's memory to its lender. Calls after the first have no effect. */
export type GiveBack = () => void;
/** Receives pieces in order. A piece's memory is valid until it is given back. */
export type TakeBytes = (bytes: Uint8Array, giveBack: GiveBack) => void;

/** A source of pieces. Pauses while too many pieces are lent, and continues when one is returned. */
export interface Lender {
  /** Starts lending. Resolves after the last piece; rejects when fewer bytes arrive than announced. */
  lend(take: TakeBytes): Promise<void>;
  /** Stops lending and closes the source. Idempotent. */
  close(): void;
}

/**
 * A stream that can also be consumed without a copy: `lend` passes on each piece in the memory that it was read into.
 * Reading the stream gives copies. Worth it: see `byte-transfer.ts`.
 */
export class LentBytes extends Readable {
  readonly #lender: Lender;
  #isLent = false;
  #giveBack: GiveBack | undefined;

  constructor(lender: Lender) {
    super();
    this.#lender = lender;
    // Prevents an unhandled error if the body fails and no caller reads it, which can happen to the body of a request.
    this.on('error', () => undefined);
  }

  /** Call it at most once, and instead of reading. Closes the stream when it settles. */
  async lend(take: TakeBytes): Promise<void> {
    this.#isLent = true;
    try {
      await this.#lender.lend(take);
    } finally {
      this.destroy();
    }
  }

  /** Closes the stream unless its consumption has begun: the consumer then receives the error. */
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

  /** Keeps a piece until the next read, because lent pieces pause the lender. */
  #holdBack(giveBack: GiveBack): void {
    const earlier = this.#giveBack;
    this.#giveBack = () => {
      earlier?.();
      giveBack();
    };
  }
}
