import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ScreenTail } from './screen-tail.ts';

const LIMIT = 128 * 1024;

describe('the tail of a screen', () => {
  it('the tail of a screen is all that was shown, while that is little', () => {
    const tail = new ScreenTail();
    const bytes = Buffer.from('one');
    tail.push(bytes);
    bytes.fill(0);
    tail.push(Buffer.from('\r\ntwo'));
    assert.equal(tail.bytes.toString(), 'one\r\ntwo');
  });

  it('the tail of a screen is the latest lines, from the beginning of one, however it came', () => {
    for (const step of [1, 100, 5000, 300_000]) {
      const tail = new ScreenTail();
      const all = Buffer.from(Array.from({ length: 60_000 }, (_, n) => `line ${n}\r\n`).join(''));
      for (let at = 0; at < all.length; at += step) tail.push(all.subarray(at, at + step));
      const text = tail.bytes.toString();
      assert.ok(text.length <= LIMIT && text.length > LIMIT - 100, `${text.length}`);
      assert.match(text, /^line \d+\r\n/);
      assert.ok(all.toString().endsWith(text));
    }
  });
});
