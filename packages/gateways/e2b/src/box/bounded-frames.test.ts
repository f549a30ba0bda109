import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import { Code, ConnectError } from '@connectrpc/connect';
import { boundedFrames } from './bounded-frames.ts';

const BOUNDS = { values: 100, depth: 10 };

function frame(text: string): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(Buffer.byteLength(text), 1);
  return Buffer.concat([head, Buffer.from(text)]);
}

/** Sends the bytes in pieces of a size, and returns what was passed on. */
async function passed(bytes: Buffer, pieceBytes: number): Promise<Buffer> {
  const pieces = Array.from({ length: Math.ceil(bytes.length / pieceBytes) }, (_, at) =>
    bytes.subarray(at * pieceBytes, (at + 1) * pieceBytes),
  );
  return Buffer.concat(await Array.fromAsync(boundedFrames(Readable.from(pieces, { objectMode: false }), BOUNDS)));
}

describe('frames of a stream', () => {
  const LIMIT: Readonly<Record<string, string>> = {
    'as many values as allowed': `[${Array(100).fill('1').join(',')}]`,
    'as many levels as allowed': '['.repeat(10) + ']'.repeat(10),
    'a string of brackets and quotes': JSON.stringify({ text: '[{,"\\'.repeat(500) }),
    // The bytes of its length are those of a quote and a comma.
    'a length that looks like JSON': JSON.stringify('x'.repeat(0x2c22 - 2)),
    nothing: '',
  };
  for (const [name, text] of Object.entries(LIMIT)) {
    it(`frames of a stream are passed on: ${name}, however they are cut`, async () => {
      const bytes = Buffer.concat([frame(text), frame(text)]);
      for (const pieceBytes of [1, 7, bytes.length || 1]) {
        assert.deepEqual(await passed(bytes, pieceBytes), bytes);
      }
    });
  }

  const BEYOND: Readonly<Record<string, string>> = {
    'one value too many': `[${Array(101).fill('1').join(',')}]`,
    'one level too many': '['.repeat(11),
    'values behind a string': `["\\"${'['.repeat(50)}",${'[],'.repeat(101)}]`,
  };
  for (const [name, text] of Object.entries(BEYOND)) {
    it(`frames of a stream are refused: ${name}, in any frame`, async () => {
      const bytes = Buffer.concat([frame('{}'), frame(text)]);
      for (const pieceBytes of [1, bytes.length]) {
        await assert.rejects(
          passed(bytes, pieceBytes),
          (error) => error instanceof ConnectError && error.code === Code.InvalidArgument,
        );
      }
    });
  }
});
