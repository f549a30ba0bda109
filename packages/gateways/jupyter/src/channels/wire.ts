import { parsePlainJson } from '@cloche/node-support';
import { type Message, readMessage } from './message.ts';

/** How messages are written in WebSocket frames. */
export interface Wire {
  encode(message: Message): string | Uint8Array;
  /** @throws Error if the frame is not a message */
  decode(frame: string | Buffer): Message;
}

/** Name of the WebSocket subprotocol of `offsetsWire`. */
export const OFFSETS_PROTOCOL = 'v1.kernel.websocket.jupyter.org';

const WORD_BYTES = 4;
const OFFSET_BYTES = 8;
/** Most buffers of a message. */
const MAX_BUFFERS = 1000;
/** Most values of a part, whose text has at most 1 MiB. */
const MAX_VALUES = 100_000;
/** Channel, header, parent header, metadata and content. */
const PARTS = 5;

/** JSON with the channel in it; in a binary frame, with buffers after it, if there are any. */
export const jsonWire: Wire = {
  encode({ buffers, ...message }) {
    const { msg_id, msg_type } = message.header;
    const text = JSON.stringify({ ...message, msg_id, msg_type, buffers: [] });
    return buffers.length === 0 ? text : joinWithOffsets([Buffer.from(text), ...buffers]);
  },
  decode(frame) {
    const [text = '', ...buffers] = typeof frame === 'string' ? [frame] : splitByOffsets(frame);
    // Read field by field.
    const value = parsePlainJson(String(text), MAX_VALUES) as { channel?: unknown } | null;
    // As Jupyter's own servers do: the gateway client of jupyter_server names no channel.
    return readMessage(value, value?.channel ?? 'shell', buffers as Buffer[]);
  },
};

/** Binary frames: the channel and the parts of the message, after their offsets of 8 little-endian bytes. */
export const offsetsWire: Wire = {
  encode({ channel, header, parent_header, metadata, content, buffers }) {
    const parts = [header, parent_header, metadata, content].map((part) => Buffer.from(JSON.stringify(part)));
    return joinWithLongOffsets([Buffer.from(channel), ...parts, ...buffers]);
  },
  decode(frame) {
    if (typeof frame === 'string') throw new Error('a frame of this subprotocol is binary');
    const parts = splitByLongOffsets(frame);
    const [channel, header, , metadata, content] = parts;
    if (!channel || !header || !metadata || !content) throw new Error('a part is missing');
    const value = { header: parse(header), metadata: parse(metadata), content: parse(content) };
    return readMessage(value, String(channel), parts.slice(PARTS));
  },
};

function parse(bytes: Buffer): unknown {
  return parsePlainJson(bytes.toString(), MAX_VALUES);
}

/** A count, that many offsets, and the parts at them; each number in 4 big-endian bytes. */
function joinWithOffsets(parts: readonly Uint8Array[]): Buffer {
  const head = Buffer.alloc(WORD_BYTES * (parts.length + 1));
  head.writeUInt32BE(parts.length);
  let offset = head.length;
  for (const [index, part] of parts.entries()) {
    head.writeUInt32BE(offset, WORD_BYTES * (index + 1));
    offset += part.length;
  }
  return Buffer.concat([head, ...parts]);
}

function splitByOffsets(frame: Buffer): Buffer[] {
  const count = frame.readUInt32BE();
  if (count > MAX_BUFFERS) throw new Error('the message has too many buffers');
  const offsets = Array.from({ length: count }, (_, index) => frame.readUInt32BE(WORD_BYTES * (index + 1)));
  return cut(frame, [...offsets, frame.length]);
}

function joinWithLongOffsets(parts: readonly Uint8Array[]): Buffer {
  const count = parts.length + 1;
  const head = Buffer.alloc(OFFSET_BYTES * (count + 1));
  head.writeBigUInt64LE(BigInt(count));
  let offset = head.length;
  for (const [index, part] of parts.entries()) {
    head.writeBigUInt64LE(BigInt(offset), OFFSET_BYTES * (index + 1));
    offset += part.length;
  }
  head.writeBigUInt64LE(BigInt(offset), OFFSET_BYTES * count);
  return Buffer.concat([head, ...parts]);
}

function splitByLongOffsets(frame: Buffer): Buffer[] {
  const count = Number(frame.readBigUInt64LE());
  if (count > MAX_BUFFERS) throw new Error('the message has too many buffers');
  const read = (_: unknown, index: number) => Number(frame.readBigUInt64LE(OFFSET_BYTES * (index + 1)));
  return cut(frame, Array.from({ length: count }, read));
}

/** Returns what lies between each offset and the next. */
function cut(frame: Buffer, offsets: readonly number[]): Buffer[] {
  return offsets.slice(1).map((end, index) => {
    const begin = offsets[index] ?? 0;
    if (begin > end || end > frame.length) throw new Error('an offset is outside the frame');
    return frame.subarray(begin, end);
  });
}
