import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BoundedText } from './bounded-text.ts';
import { Utf8Stream } from './utf8-stream.ts';

function decode(chunks: number[][]): string {
  const stream = new Utf8Stream();
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
  assert.equal(text.end(), '\n[cloche: 6 bytes of stderr cut, the limit is 4 bytes]\n');
  assert.equal(text.cutBytes, 6);
});

test('a limit of nothing cuts everything', () => {
  const text = new BoundedText('stdout', 0);
  assert.equal(text.push(Buffer.from('abc')), '');
  assert.equal(text.end(), '[cloche: 3 bytes of stdout cut, the limit is 0 bytes]\n');
});

test('a character that the limit divides is cut as a whole', () => {
  const text = new BoundedText('stdout', 4);
  assert.equal(text.push(Buffer.from('ab€')), 'ab');
  assert.equal(text.cutBytes, 3);
});
