import type { Socket } from 'node:net';

const LENGTH_BYTES = 2;
const MAX_MESSAGE_BYTES = 0xffff;

/** Returns a message with the length prefix that DNS over TCP requires. */
export function frame(message: Buffer): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt16BE(message.length);
  return Buffer.concat([length, message]);
}

/** Yields the messages on a TCP connection until one is too long. Reads on after the consumer has handled a message. */
export async function* readFrames(socket: Socket, maxBytes = MAX_MESSAGE_BYTES): AsyncGenerator<Buffer, void, void> {
  let pending = Buffer.alloc(0);
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    pending = Buffer.concat([pending, chunk]);
    for (let end = frameEnd(pending); end !== undefined; end = frameEnd(pending)) {
      yield pending.subarray(LENGTH_BYTES, end);
      pending = pending.subarray(end);
    }
    if (pending.length >= LENGTH_BYTES && pending.readUInt16BE(0) > maxBytes) return;
  }
}

function frameEnd(pending: Buffer): number | undefined {
  if (pending.length < LENGTH_BYTES) return undefined;
  const end = LENGTH_BYTES + pending.readUInt16BE(0);
  return pending.length < end ? undefined : end;
}
