import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LineBuffer } from './line-buffer.ts';

/** Returns the complete lines of `chunks` and the number of bytes left. */
function lines(chunks: string[], maxLineBytes = 100): { found: string[]; left: number } {
  const buffer = new LineBuffer(maxLineBytes);
  const found: string[] = [];
  for (const chunk of chunks) {
    buffer.push(Buffer.from(chunk, 'latin1'));
    for (let line = buffer.take(); line !== undefined; line = buffer.take()) found.push(line);
  }
  return { found, left: buffer.bytes };
}

describe('a buffer of lines', () => {
  it('finds them however the chunks fall', () => {
    const cuts = [['a\nbb\nccc\n'], ['a', '\n', 'bb\nc', 'cc\n'], ['a\nb', 'b', '\n', 'ccc', '\n']];
    for (const chunks of cuts) assert.deepEqual(lines(chunks), { found: ['a', 'bb', 'ccc'], left: 0 });
  });

  it('keeps a line that is not yet whole', () => {
    assert.deepEqual(lines(['a\nbc', 'd']), { found: ['a'], left: 3 });
    assert.deepEqual(lines([]), { found: [], left: 0 });
  });

  it('puts a character together that two chunks share', () => {
    assert.deepEqual(lines(['\xc3', '\xa9\n']).found, ['é']);
  });

  it('takes a line of the bound and refuses a longer one before it is whole', () => {
    assert.deepEqual(lines(['x'.repeat(10), '\n'], 10).found, ['x'.repeat(10)]);
    const refusal = { name: 'AgentError', kind: 'misbehaved' };
    assert.throws(() => lines(['x'.repeat(6), 'x'.repeat(5)], 10), refusal);
    assert.throws(() => lines([`${'x'.repeat(11)}\n`], 10), refusal);
  });
});
