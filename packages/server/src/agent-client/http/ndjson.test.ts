import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LineTooLongError, readLines } from './ndjson.ts';

async function lines(chunks: string[], maxLineBytes = 100): Promise<string[]> {
  async function* source() {
    for (const chunk of chunks) yield Buffer.from(chunk, 'latin1');
  }
  const found: string[] = [];
  for await (const line of readLines(source(), maxLineBytes)) found.push(line);
  return found;
}

describe('reading lines', () => {
  it('finds them however the chunks fall', async () => {
    const cuts = [['a\nbb\nccc\n'], ['a', '\n', 'bb\nc', 'cc\n'], ['a\nb', 'b', '\n', 'ccc', '\n']];
    for (const chunks of cuts) assert.deepEqual(await lines(chunks), ['a', 'bb', 'ccc']);
  });

  it('gives a last line without its line feed, and nothing for none', async () => {
    assert.deepEqual(await lines(['a\nb']), ['a', 'b']);
    assert.deepEqual(await lines([]), []);
  });

  it('puts a character together that two chunks share', async () => {
    assert.deepEqual(await lines(['\xc3', '\xa9\n']), ['é']);
  });

  it('takes a line of the bound and refuses a longer one before it is whole', async () => {
    assert.deepEqual(await lines(['x'.repeat(10), '\n'], 10), ['x'.repeat(10)]);
    await assert.rejects(lines(['x'.repeat(6), 'x'.repeat(5)], 10), LineTooLongError);
    await assert.rejects(lines([`${'x'.repeat(11)}\n`], 10), LineTooLongError);
  });
});
