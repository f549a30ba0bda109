import { Agent, type ClientRequestArgs, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { GiveBack, Lender, TakeBytes } from '../../lent-bytes.ts';

/** What a Unix socket holds at most fits into one. */
const PIECE_BYTES = 256 * 1024;
/** Pieces that one transfer has out at a time. */
const PIECES = 4;

/** Reads of every connection end in it, but for those that are lent on: nothing else runs until it is copied. */
const scratch = Buffer.allocUnsafeSlow(PIECE_BYTES);

/** Takes a read; false to read no further. */
type TakeRead = (bytes: Buffer) => boolean;

interface Reading {
  take: TakeRead;
  next: () => Buffer;
}

const readings = new WeakMap<Duplex, Reading>();

/** Connections whose answers can be had by `lenderOf`; until that is called they are like any others. */
export class TransferAgent extends Agent {
  override createConnection(options: ClientRequestArgs): Duplex {
    const reading: Reading = { take: (bytes) => socket.push(Buffer.from(bytes)), next: () => scratch };
    const socket: Socket = connect({
      // Every request through it names one.
      path: options.socketPath as string,
      onread: {
        buffer: () => reading.next(),
        callback: (length, bytes) => reading.take(bytes.subarray(0, length) as Buffer),
      },
    });
    readings.set(socket, reading);
    return socket;
  }
}

/**
 * The `sizeBytes` of the body of `response`, past the HTTP client: it makes an object and a buffer of each piece, which
 * costs more than moving the bytes. The connection ends with the body. Undefined where that cannot be.
 */
export function lenderOf(response: IncomingMessage, sizeBytes: number): Lender | undefined {
  const { socket } = response;
  const reading = readings.get(socket);
  // What the client has not looked at yet would come after what is read from now on.
  if (!reading || response.complete || socket.readableLength > 0) return undefined;
  const arrived: Buffer | null = response.read();
  return new BodyLender(socket, reading, arrived ?? Buffer.alloc(0), sizeBytes);
}

class BodyLender implements Lender {
  readonly #socket: Socket;
  readonly #arrived: Buffer;
  readonly #pieces = new Map<ArrayBufferLike, Buffer>();
  readonly #free: Buffer[] = [];
  readonly #over = Promise.withResolvers<void>();
  #leftBytes: number;
  #out = 0;
  #take: TakeBytes | undefined;
  #early: Buffer | undefined;

  constructor(socket: Socket, reading: Reading, arrived: Buffer, sizeBytes: number) {
    this.#socket = socket;
    this.#arrived = arrived;
    this.#leftBytes = sizeBytes;
    this.#over.promise.catch(() => undefined);
    reading.take = (bytes) => this.#receive(bytes);
    reading.next = () => this.#free.pop() ?? scratch;
    socket.pause();
    socket.once('close', () => this.#over.reject(new Error('the agent broke off before the end of a file')));
  }

  lend(take: TakeBytes): Promise<void> {
    for (let count = 0; count < PIECES; count += 1) {
      const piece = Buffer.allocUnsafeSlow(PIECE_BYTES);
      this.#pieces.set(piece.buffer, piece);
      this.#free.push(piece);
    }
    this.#take = take;
    if (this.#arrived.length > 0) this.#hand(this.#arrived);
    if (this.#early) this.#hand(this.#early);
    this.#early = undefined;
    this.#readOn();
    return this.#over.promise;
  }

  close(): void {
    this.#socket.destroy();
  }

  #receive(read: Buffer): boolean {
    const bytes = read.buffer === scratch.buffer ? Buffer.from(read) : read;
    if (!this.#take) {
      this.#early = this.#early ? Buffer.concat([this.#early, bytes]) : bytes;
      return false;
    }
    this.#hand(bytes);
    return this.#mayRead;
  }

  get #mayRead(): boolean {
    return this.#leftBytes > 0 && this.#out < PIECES;
  }

  #hand(bytes: Buffer): void {
    const piece = bytes.length > this.#leftBytes ? bytes.subarray(0, this.#leftBytes) : bytes;
    this.#leftBytes -= piece.length;
    this.#out += 1;
    this.#take?.(piece, this.#giveBackOf(bytes));
    if (this.#leftBytes === 0) this.#over.resolve();
  }

  #giveBackOf(bytes: Buffer): GiveBack {
    let isOut = true;
    return () => {
      if (!isOut) return;
      isOut = false;
      this.#out -= 1;
      const piece = this.#pieces.get(bytes.buffer);
      if (piece) this.#free.push(piece);
      this.#readOn();
    };
  }

  #readOn(): void {
    if (this.#mayRead) this.#socket.resume();
  }
}
