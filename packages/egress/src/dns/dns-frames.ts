import type { Socket } from 'node:net';

const LENGTH_BYTES = 2;
const MAX_MESSAGE_BYTES = 0xffff;

/** A message as it goes over TCP: after its length. */
export function frame(message: Buffer): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt16BE(message.length);
  return Buffer.concat([length, message]);
}

/** The messages that arrive on a TCP connection, up to one that is too long. Reads on only when the one before was dealt with. */
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
