import { type BodySink, RemainingBytes } from '@cloche/node-support';
import type { GiveBack, Lender, TakeBytes } from './lent-bytes.ts';

/** Bytes of one read buffer. A Unix socket's full buffer fits into it. */
const PIECE_BYTES = 256 * 1024;
/** Read buffers for each transfer. At most all but one are lent at a time: the remaining one takes the next read. */
const PIECES = 4;

/** Reads a connection. */
export interface BodyReader {
  /** Reads into `sink.buffer()` and passes each read to `sink.take`. */
  begin(sink: BodySink): void;
  resume(): void;
  close(): void;
}

/** Lends the bytes of a connection in the buffers that they were read into. Worth it: see `byte-transfer.ts`. */
export class BodyLender implements Lender, BodySink {
  readonly #reader: BodyReader;
  readonly #free: Buffer[] = [];
  readonly #remaining: RemainingBytes;
  readonly #over = Promise.withResolvers<void>();
  #next: Buffer = Buffer.alloc(0);
  #take: TakeBytes | undefined;

  constructor(reader: BodyReader, sizeBytes: number) {
    this.#reader = reader;
    this.#remaining = new RemainingBytes(sizeBytes);
    this.#over.promise.catch(() => undefined);
  }

  lend(take: TakeBytes): Promise<void> {
    for (let count = 0; count < PIECES; count += 1) this.#free.push(Buffer.allocUnsafeSlow(PIECE_BYTES));
    this.#next = this.#free.pop() ?? this.#next;
    this.#take = take;
    this.#reader.begin(this);
    return this.#over.promise;
  }

  close(): void {
    this.#over.reject(new Error('the rest of the body is not read'));
    this.#reader.close();
  }

  buffer(): Buffer {
    return this.#next;
  }

  take(read: Buffer): boolean {
    const bytes = this.#remaining.take(read);
    const piece = read.buffer === this.#next.buffer ? this.#next : undefined;
    // A free buffer exists: reading stops when `#mayRead` is false.
    if (piece) this.#next = this.#free.pop() ?? Buffer.alloc(0);
    this.#take?.(bytes, this.#giveBackOf(piece));
    if (this.#remaining.count === 0) this.#over.resolve();
    return this.#mayRead;
  }

  fail(error: Error): void {
    this.#over.reject(error);
  }

  get #mayRead(): boolean {
    return this.#remaining.count > 0 && this.#free.length > 0;
  }

  #giveBackOf(piece: Buffer | undefined): GiveBack {
    let isOut = true;
    return () => {
      if (!isOut) return;
      isOut = false;
      if (piece) this.#free.push(piece);
      if (this.#mayRead) this.#reader.resume();
    };
  }
}
