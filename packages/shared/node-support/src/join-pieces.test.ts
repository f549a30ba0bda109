import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { joinPieces } from './join-pieces.ts';
import { TurnBudget } from './turn-budget.ts';

const PER_TURN = 1000;

function body() {
  const asked: number[] = [];
  const stream = new Readable({ highWaterMark: 64 * 1024, read: () => void asked.push(asked.length) });
  joinPieces(stream, new TurnBudget(PER_TURN));
  const chunks: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  return { stream, chunks, asked };
}

test('pieces of one byte are few and large when they come out, and all there', async () => {
  const { stream, chunks } = body();
  const bytes = Buffer.from(Array.from({ length: 40_000 }, (_, index) => index));
  for (const byte of bytes) stream.push(Buffer.of(byte));
  stream.push(null);
  await once(stream, 'end');
  assert.ok(Buffer.concat(chunks).equals(bytes));
  assert.ok(chunks.length <= 4, `${chunks.length}`);
});

test('many pieces ask their source to stop, and wait for the turns that they cost', async () => {
  const { stream, chunks } = body();
  const goesOn = Array.from({ length: 3000 }, () => stream.push(Buffer.of(1)));
  assert.deepEqual([goesOn[0], goesOn.at(-1)], [true, false]);
  await turn();
  for (let index = 0; index < 50; index += 1) stream.push(Buffer.of(2));
  assert.equal(Buffer.concat(chunks).length, 3000);
  await turn();
  assert.equal(Buffer.concat(chunks).length, 3000);
  await eventually(() => Buffer.concat(chunks).length === 3050, { because: 'every piece arrives' });
});

test('large pieces go through as they are, in their place', async () => {
  const { stream, chunks } = body();
  const large = Buffer.alloc(8192, 'l');
  stream.push(large);
  stream.push(Buffer.from('small'));
  stream.push(large);
  stream.push(null);
  await once(stream, 'end');
  assert.equal(chunks[0], large);
  assert.equal(Buffer.concat(chunks).toString(), `${large}small${large}`);
});

test('what is destroyed while its pieces wait is left alone', async () => {
  const { stream, chunks } = body();
  stream.on('error', () => {});
  for (let index = 0; index < 100; index += 1) stream.push(Buffer.of(1));
  stream.destroy();
  await turn();
  assert.deepEqual(chunks, []);
});
