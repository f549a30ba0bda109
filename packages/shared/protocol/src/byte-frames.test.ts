import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ByteFrames, encodeByteFrame } from './byte-frames.ts';

describe('frames of bytes', () => {
  it('frames of bytes are the same however they are cut, and those of streams come as they come', () => {
    const sent: [string, string][] = [
      ['R', '80 24'],
      ['O', 'x'.repeat(1000)],
      ['C', ''],
      ['E', 'é'],
      ['X', 'exit 3'],
    ];
    const bytes = Buffer.concat(sent.flatMap(([type, text]) => encodeByteFrame(type, Buffer.from(text))));
    for (const step of [1, 3, 7, 999, bytes.length]) {
      const seen: [string, Buffer][] = [];
      const frames = new ByteFrames((type, body) => {
        const last = seen.at(-1);
        if (last?.[0] === type) last[1] = Buffer.concat([last[1], body]);
        else seen.push([type, Buffer.from(body)]);
      });
      for (let at = 0; at < bytes.length; at += step) frames.push(bytes.subarray(at, at + step));
      assert.deepEqual(
        seen.map(([type, body]) => [type, body.toString()]),
        sent,
        `in steps of ${step}`,
      );
    }
  });

  it('frames of bytes that are no stream are refused when they are too large', () => {
    const frames = new ByteFrames(() => undefined);
    const [header] = encodeByteFrame('X', Buffer.alloc(5000));
    assert.throws(() => frames.push(header), /the frame of type X has 5000 bytes/);
  });
});
