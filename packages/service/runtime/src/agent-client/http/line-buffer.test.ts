import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { exposedCollector } from '@cloche/node-support';
import { LineBuffer, readLines } from './line-buffer.ts';

const collect = exposedCollector();

function collected(): number {
  collect({ type: 'major' });
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

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
  it('a buffer of lines finds them however the chunks fall', () => {
    const cuts = [['a\nbb\nccc\n'], ['a', '\n', 'bb\nc', 'cc\n'], ['a\nb', 'b', '\n', 'ccc', '\n']];
    for (const chunks of cuts) assert.deepEqual(lines(chunks), { found: ['a', 'bb', 'ccc'], left: 0 });
  });

  it('a buffer of lines keeps a line that is not yet whole', () => {
    assert.deepEqual(lines(['a\nbc', 'd']), { found: ['a'], left: 3 });
    assert.deepEqual(lines([]), { found: [], left: 0 });
  });

  it('a buffer of lines puts a line of single bytes together, before and after larger pieces', () => {
    const [small, large] = [Array.from('xyz'.repeat(1_000)), 'l'.repeat(2 * 1024 * 1024)];
    for (const chunks of [small, [large, ...small], [...small, large, ...small, large]]) {
      assert.deepEqual(lines([...chunks, '\n', 'a\n'], 2 ** 23).found, [chunks.join(''), 'a']);
    }
  });

  it('a buffer of lines holds single bytes of a line in few buffers', () => {
    const heldBy = (chunks: readonly Buffer[]) => {
      const before = collected();
      const buffer = new LineBuffer(2 ** 20);
      for (const chunk of chunks) {
        buffer.push(Buffer.from(chunk));
        buffer.take();
      }
      return { held: collected() - before, buffer };
    };
    const bytes = 200_000;
    const { held } = heldBy(Array<Buffer>(bytes).fill(Buffer.from('x')));
    assert.ok(held < 16 * bytes, `${held} bytes for ${bytes}`);
  });

  it('a buffer of lines counts what single bytes take while they are not looked at', () => {
    const [few, many] = [new LineBuffer(1000), new LineBuffer(1000)];
    few.push(Buffer.alloc(1000, 'x'));
    for (let pushed = 0; pushed < 1000; pushed += 1) many.push(Buffer.of(0x78));
    assert.ok(many.aheadBytes > 50 * few.aheadBytes, `${many.aheadBytes}, ${few.aheadBytes}`);
  });

  it('a buffer of lines puts a character together that two chunks share', () => {
    assert.deepEqual(lines(['\xc3', '\xa9\n']).found, ['é']);
  });

  it('a buffer of lines takes a line of the bound and refuses a longer one before it is whole', () => {
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
  it('reading lines yields a last line without its line feed, and nothing for no data', async () => {
    for (const chunks of [['a\nb'], ['a', '\nb'], ['a\n', 'b']]) assert.deepEqual(await readAll(chunks), ['a', 'b']);
    assert.deepEqual(await readAll(['a\n']), ['a']);
    assert.deepEqual(await readAll([]), []);
  });

  it('reading lines refuses a line over the limit', async () => {
    await assert.rejects(readAll(['x'.repeat(6), 'x'.repeat(5)], 10), { name: 'AgentError', kind: 'misbehaved' });
  });
});
