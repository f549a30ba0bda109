import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket, type SocketConstructorOpts } from 'node:net';
import { ExpectedBytes } from './expected-bytes.ts';

/** Where the bytes of a body go. */
export interface BodySink {
  /** The memory of the next read; asked for again after each. */
  buffer(): Buffer;
  /** Takes what has been read: it lies in that memory, but for the first bytes. False to wait for `resume`. */
  take(bytes: Buffer): boolean;
  /** There will be no more, though there should. */
  fail(error: Error): void;
}

/** Bodies below are not worth a connection. */
const MIN_BYTES = 1024 * 1024;

/**
 * The body of a large request, past the HTTP server: that makes an object and a buffer of each 64 KiB, and to collect them
 * costs more than to move the bytes. The connection ends with the answer, and not before the body has come: closed with
 * bytes unread it would take the answer along.
 */
export class DirectBody {
  readonly #sink: BodySink;
  readonly #socket: Socket;
  readonly #reader: Socket;
  readonly #over = Promise.withResolvers<void>();
  readonly #expected: ExpectedBytes;
  #isGivenUp = false;

  /** Whether it is worth it, and can be had: it is still to come, and the system carries its connection. */
  static isPossible(request: IncomingMessage): boolean {
    const length = Number(request.headers['content-length'] ?? 0);
    return length >= MIN_BYTES && !request.complete && handleOf(request) !== undefined;
  }

  /** Begins. @throws where the connection has ended */
  constructor(request: IncomingMessage, response: ServerResponse, sink: BodySink) {
    const { socket } = request;
    const handle = handleOf(request);
    if (!handle) throw new Error('the sender went away before it had sent everything');
    this.#socket = socket;
    this.#sink = sink;
    this.#expected = new ExpectedBytes(Number(request.headers['content-length']));
    const arrived: Buffer | null = request.read(request.readableLength);
    letGo(socket);
    // Before the first read is given its memory.
    const goesOn = arrived === null || this.#receive(arrived);
    this.#reader = this.#open(handle);
    this.#endWith(socket);
    response.shouldKeepAlive = false;
    if (goesOn) this.resume();
  }

  resume(): void {
    if (this.#expected.left > 0) this.#reader.resume();
  }

  /** What still comes is dropped. */
  giveUp(): void {
    this.#isGivenUp = true;
    this.resume();
  }

  /**
   * Node reads into buffers of its caller's where it has opened the connection. To have that of one that it has accepted,
   * a second socket is put on the same handle; the first one goes on to write.
   */
  #open(handle: object): Socket {
    const options = {
      handle,
      allowHalfOpen: true,
      pauseOnCreate: true,
      onread: {
        buffer: () => this.#sink.buffer(),
        callback: (length: number, bytes: Uint8Array) => this.#receive(bytes.subarray(0, length) as Buffer),
      },
    };
    // The types know no handle of an accepted connection.
    return new Socket(options as SocketConstructorOpts);
  }

  #endWith(socket: Socket): void {
    const broken = () => socket.destroy();
    this.#reader.on('error', broken).once('end', broken);
    socket.once('close', () => {
      this.#reader.destroy();
      if (this.#expected.left > 0) this.#sink.fail(new Error('the sender went away before it had sent everything'));
      this.#over.resolve();
    });
    const end = socket.destroySoon.bind(socket);
    socket.destroySoon = () => {
      this.giveUp();
      this.#over.promise.then(end);
    };
  }

  #receive(read: Buffer): boolean {
    const bytes = this.#expected.take(read);
    // It moves: whoever gave it a time counts from here.
    this.#socket.setTimeout(this.#socket.timeout ?? 0);
    if (this.#expected.left === 0) this.#over.resolve();
    const goesOn = this.#isGivenUp || this.#sink.take(bytes);
    return goesOn && this.#expected.left > 0;
  }
}

/** Node keeps it to itself; where there is none, bodies are read as any others. */
function handleOf({ socket }: IncomingMessage): object | undefined {
  const { _handle: handle } = socket as { _handle?: { isStreamBase?: boolean } };
  return handle?.isStreamBase ? handle : undefined;
}

/** The HTTP server reads no more of it: it gives way to whoever listens. */
function letGo(socket: Socket): void {
  const nothing = () => undefined;
  // First, else listening would begin to read.
  socket.pause();
  socket.on('data', nothing).off('data', nothing);
}
