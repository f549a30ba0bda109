import { Agent, type ClientRequestArgs, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { BodySink } from '@cloche/node-support';
import { BodyLender } from './body-lender.ts';

/** Reads of every connection end in it, but for those that are lent on: nothing else runs until it is copied. */
const scratch = Buffer.allocUnsafeSlow(256 * 1024);

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
export function lenderOf(response: IncomingMessage, sizeBytes: number): BodyLender | undefined {
  const { socket } = response;
  const reading = readings.get(socket);
  // What the client has not looked at yet would come after what is read from now on.
  if (!reading || response.complete || socket.readableLength > 0) return undefined;
  const early: Buffer[] = [response.read(response.readableLength) ?? Buffer.alloc(0)];
  reading.take = (bytes) => {
    early.push(Buffer.from(bytes));
    return false;
  };
  socket.pause();
  const begin = (sink: BodySink) => {
    reading.next = () => sink.buffer();
    // The first read was to end in the memory of all.
    reading.take = (bytes) => sink.take(bytes.buffer === scratch.buffer ? Buffer.from(bytes) : bytes);
    for (const bytes of early.splice(0)) if (bytes.length > 0) sink.take(bytes);
    socket.resume();
  };
  const lender = new BodyLender({ begin, resume: () => socket.resume(), close: () => socket.destroy() }, sizeBytes);
  socket.once('close', () => lender.fail(new Error('the agent broke off before the end of a file')));
  return lender;
}
