import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BoundedText } from './bounded-text.ts';

function decode(chunks: number[][]): string {
  const stream = new BoundedText('stdout', 1000);
  return chunks.map((chunk) => stream.push(Buffer.from(chunk))).join('') + stream.end();
}

test('characters stay whole wherever their bytes are divided', () => {
  const text = 'aé€😀\ufeffz';
  const bytes = [...Buffer.from(text)];
  for (let cut = 0; cut <= bytes.length; cut++) {
    assert.equal(decode([bytes.slice(0, cut), bytes.slice(cut)]), text);
  }
  assert.equal(decode(bytes.map((byte) => [byte])), text);
});

test('what is no UTF-8 becomes U+FFFD', () => {
  assert.equal(decode([[0xff, 0x61]]), '\ufffda');
  assert.equal(decode([[0x61, 0xe2, 0x82]]), 'a\ufffd');
  assert.equal(decode([[0x80], [0x80], [0x80], [0x80]]), '\ufffd'.repeat(4));
  assert.equal(decode([[0xf0], [0x41]]), '\ufffdA');
});

test('text within its limit is passed on as it is', () => {
  const text = new BoundedText('stdout', 5);
  assert.equal(text.push(Buffer.from('hello')) + text.end(), 'hello');
  assert.equal(text.cutBytes, 0);
});

test('the head is kept and a line of its own says what was cut', () => {
  const text = new BoundedText('stderr', 4);
  assert.equal(text.push(Buffer.from('abc')), 'abc');
  assert.equal(text.push(Buffer.from('defg')), 'd');
  assert.equal(text.push(Buffer.from('hij')), '');
  assert.equal(text.end(), '\n[cloche: 6 bytes of stderr cut; the limit is 4 bytes as JSON]\n');
  assert.equal(text.cutBytes, 6);
});

test('a limit of nothing cuts everything', () => {
  const text = new BoundedText('stdout', 0);
  assert.equal(text.push(Buffer.from('abc')), '');
  assert.equal(text.end(), '[cloche: 3 bytes of stdout cut; the limit is 0 bytes as JSON]\n');
});

test('a character that the limit divides is cut as a whole', () => {
  const text = new BoundedText('stdout', 4);
  assert.equal(text.push(Buffer.from('ab€')), 'ab');
  assert.equal(text.cutBytes, 3);
});

test('what JSON writes longer counts as long as JSON writes it', () => {
  const text = new BoundedText('stdout', 13);
  assert.equal(text.push(Buffer.from('\u0001"\n\u0002\u0003')), '\u0001"\n');
  assert.equal(text.push(Buffer.from('x')), '');
  assert.equal(text.cutBytes, 3);
});

test('what is no UTF-8 counts as the characters that stand for it', () => {
  const text = new BoundedText('stdout', 7);
  assert.equal(text.push(Buffer.from([0xff, 0xff, 0xff, 0xff])), '\ufffd\ufffd');
  assert.equal(text.cutBytes, 2);
});

test('the longest head that fits is kept, wherever the limit divides a character', () => {
  const printed = 'aé\n€"😀\u0001z';
  for (let limit = 0; limit <= 24; limit += 1) {
    const text = new BoundedText('stdout', limit);
    const kept = text.push(Buffer.from(printed));
    const fits = [...printed].map((_, index, all) => all.slice(0, index + 1).join(''));
    const longest = fits.filter((head) => Buffer.byteLength(JSON.stringify(head)) - 2 <= limit).at(-1) ?? '';
    assert.equal(kept, longest);
    assert.equal(text.cutBytes, Buffer.byteLength(printed) - Buffer.byteLength(longest));
  }
});
