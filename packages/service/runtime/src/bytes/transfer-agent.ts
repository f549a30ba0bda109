import { Agent, type AgentOptions, type IncomingMessage } from 'node:http';
import type { OnReadOpts, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { BodySink } from '@cloche/node-support';
import { BodyLender } from './body-lender.ts';

/**
 * Shared read buffer of all connections that are not lent from. Each read is copied out at once, before any other code
 * runs.
 */
const scratch = Buffer.allocUnsafeSlow(256 * 1024);

/** Receives a read. Returns false to pause reading. */
type TakeRead = (bytes: Buffer) => boolean;

interface Reading {
  take: TakeRead;
  next: () => Buffer;
}

const readings = new WeakMap<Duplex, Reading>();

/** An HTTP agent whose answers can be read by `lenderOf`. Until that call, its connections behave like any others. */
export class TransferAgent extends Agent {
  readonly #dial: (options: { onread: OnReadOpts }) => Socket;

  /** @param dial opens a connection that reads into the given buffers */
  constructor(dial: (options: { onread: OnReadOpts }) => Socket, options: AgentOptions) {
    super(options);
    this.#dial = dial;
  }

  override createConnection(): Duplex {
    const reading: Reading = { take: (bytes) => socket.push(Buffer.from(bytes)), next: () => scratch };
    const socket = this.#dial({
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
 * Returns a lender for the `sizeBytes` of the body of `response`. The lender reads past the HTTP client, which makes an
 * object and a buffer of each piece at a higher cost than moving the bytes. The connection ends with the body. Returns
 * undefined where reading past the client is impossible.
 */
export function lenderOf(response: IncomingMessage, sizeBytes: number): BodyLender | undefined {
  const { socket } = response;
  const reading = readings.get(socket);
  // Bytes that the HTTP client has not parsed yet would arrive after bytes that are read from now on.
  if (!reading || response.complete || socket.readableLength > 0) return undefined;
  const early: Buffer[] = [response.read(response.readableLength) ?? Buffer.alloc(0)];
  reading.take = (bytes) => {
    early.push(Buffer.from(bytes));
    return false;
  };
  socket.pause();
  const begin = (sink: BodySink) => {
    reading.next = () => sink.buffer();
    // The first read may still be in the shared buffer.
    reading.take = (bytes) => sink.take(bytes.buffer === scratch.buffer ? Buffer.from(bytes) : bytes);
    for (const bytes of early.splice(0)) if (bytes.length > 0) sink.take(bytes);
    socket.resume();
  };
  const lender = new BodyLender({ begin, resume: () => socket.resume(), close: () => socket.destroy() }, sizeBytes);
  socket.once('close', () => lender.fail(new Error('the agent broke off before the end of a file')));
  return lender;
}
