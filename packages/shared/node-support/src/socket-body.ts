import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket, type SocketConstructorOpts } from 'node:net';
import { endPacing } from './pace-chunks.ts';
import { parseFromStream } from './parse-from-stream.ts';
import { RemainingBytes } from './remaining-bytes.ts';

/** Receiver of a body's bytes. */
export interface BodySink {
  /** Returns the memory for the next read; called again after each read. */
  buffer(): Buffer;
  /**
   * Receives the bytes of a read. They are in the memory from `buffer`, except the first bytes of a body. Returns false
   * to pause until `resume`.
   */
  take(bytes: Buffer): boolean;
  /** Reports that the body ended too early. */
  fail(error: Error): void;
}

/** Smallest body read this way; for a smaller one, closing the connection costs more than is gained. */
const MIN_BYTES = 1024 * 1024;
/** Connections that are read this way; they carry no further request. */
const bypassedSockets = new WeakSet<Socket>();

/**
 * Reads the body of a large request, bypassing the HTTP server. The server allocates an object and a buffer for each 64
 * KiB; collecting these took 36 % of a server's time for a large file. The connection closes with the answer, but only
 * after the whole body was received: closing it with unread bytes would discard the answer.
 */
export class SocketBody {
  readonly #sink: BodySink;
  readonly #socket: Socket;
  readonly #reader: Socket;
  readonly #over = Promise.withResolvers<void>();
  readonly #remaining: RemainingBytes;
  #isGivenUp = false;

  /** Returns whether a body is large enough, not received yet, and on a connection with a native handle. */
  static isPossible(request: IncomingMessage): boolean {
    const length = Number(request.headers['content-length'] ?? 0);
    return length >= MIN_BYTES && !request.complete && handleOf(request) !== undefined;
  }

  /** Returns whether the body of a request is read this way. */
  static isReading({ socket }: IncomingMessage): boolean {
    return bypassedSockets.has(socket);
  }

  /**
   * Starts reading.
   * @throws Error when the connection has ended
   */
  constructor(request: IncomingMessage, response: ServerResponse, sink: BodySink) {
    const { socket } = request;
    const handle = handleOf(request);
    if (!handle) throw new Error('the sender went away before it had sent everything');
    bypassedSockets.add(socket);
    this.#socket = socket;
    this.#sink = sink;
    this.#remaining = new RemainingBytes(Number(request.headers['content-length']));
    flush(socket);
    const arrived: Buffer | null = request.read(request.readableLength);
    letGo(socket);
    // Before the first read gets its memory.
    const goesOn = arrived === null || this.#receive(arrived);
    this.#reader = this.#open(handle);
    this.#endWith(socket);
    response.shouldKeepAlive = false;
    if (goesOn) this.resume();
  }

  resume(): void {
    if (this.#remaining.count > 0) this.#reader.resume();
  }

  /** Discards the rest of the body. */
  giveUp(): void {
    this.#isGivenUp = true;
    this.resume();
  }

  /**
   * Opens a second socket on the connection's handle. Node supports reads into a caller's buffers (`onread`) only for
   * sockets that it opens itself, not for accepted ones; the first socket continues to write.
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
    // The types do not include the handle of an accepted connection.
    return new Socket(options as SocketConstructorOpts);
  }

  #endWith(socket: Socket): void {
    const broken = () => socket.destroy();
    this.#reader.on('error', broken).once('end', broken);
    socket.once('close', () => {
      this.#reader.destroy();
      if (this.#remaining.count > 0) this.#sink.fail(new Error('the sender went away before it had sent everything'));
      this.#over.resolve();
    });
    const end = socket.destroySoon.bind(socket);
    socket.destroySoon = () => {
      this.giveUp();
      this.#over.promise.then(end);
    };
  }

  #receive(read: Buffer): boolean {
    const bytes = this.#remaining.take(read);
    // Bytes arrived, so restart the idle timeout.
    this.#socket.setTimeout(this.#socket.timeout ?? 0);
    if (this.#remaining.count === 0) this.#over.resolve();
    const goesOn = this.#isGivenUp || this.#sink.take(bytes);
    return goesOn && this.#remaining.count > 0;
  }
}

/** Returns Node's internal handle; undefined where there is none, and the body is then read normally. */
function handleOf({ socket }: IncomingMessage): object | undefined {
  const { _handle: handle } = socket as { _handle?: { isStreamBase?: boolean } };
  return handle?.isStreamBase ? handle : undefined;
}

/** Makes the HTTP server parse what the socket has received, so that it becomes part of the request. */
function flush(socket: Socket): void {
  endPacing(socket);
  // Each read emits `data`, which the server parses, also while the socket is paused.
  while (socket.read() !== null);
}

/** Detaches the HTTP server from the socket's handle. */
function letGo(socket: Socket): void {
  // First, because a `data` listener would start reading.
  socket.pause();
  parseFromStream(socket);
}
