import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LineBuffer, readLines } from './line-buffer.ts';

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

async function readAll(chunks: string[], maxLineBytes = 100): Promise<string[]> {
  async function* source() {
    for (const chunk of chunks) yield Buffer.from(chunk, 'latin1');
  }
  const found: string[] = [];
  for await (const line of readLines(source(), maxLineBytes)) found.push(line);
  return found;
}

describe('reading lines', () => {
  it('yields a last line without its line feed, and nothing for no data', async () => {
    for (const chunks of [['a\nb'], ['a', '\nb'], ['a\n', 'b']]) assert.deepEqual(await readAll(chunks), ['a', 'b']);
    assert.deepEqual(await readAll(['a\n']), ['a']);
    assert.deepEqual(await readAll([]), []);
  });

  it('refuses a line over the limit', async () => {
    await assert.rejects(readAll(['x'.repeat(6), 'x'.repeat(5)], 10), { name: 'AgentError', kind: 'misbehaved' });
  });
});
