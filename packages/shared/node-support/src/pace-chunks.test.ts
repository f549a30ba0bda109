import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { endPacing, paceChunks } from './pace-chunks.ts';
import { TurnBudget } from './turn-budget.ts';

const LINES = Buffer.from(Array.from({ length: 3_000 }, (_, index) => `${index}\r\n`).join(''));

function open() {
  let asked = 0;
  const read = () => {
    asked += 1;
  };
  const connection = new Readable({ highWaterMark: 64 * 1024, read });
  paceChunks(connection, new TurnBudget(1000));
  return { connection, asked: () => asked };
}

test('many chunks of one read come out over several turns, in order, and its end after them', async () => {
  const { connection } = open();
  const pieces: Buffer[] = [];
  connection.on('data', (piece: Buffer) => pieces.push(piece));
  await turn();
  connection.push(LINES);
  connection.push(Buffer.from('more'));
  connection.push(null);
  const atOnce = Buffer.concat(pieces).length;
  assert.ok(atOnce > 0 && atOnce < LINES.length / 4, `${atOnce} of ${LINES.length}`);
  await once(connection, 'end');
  assert.equal(Buffer.concat(pieces).toString(), `${LINES}more`);
});

test('nothing more is asked for while something waits, and a paused reader gets nothing more', async () => {
  const { connection, asked } = open();
  connection.push(LINES);
  const before = asked();
  for (let turns = 0; turns < 20; turns += 1) await turn();
  assert.ok(connection.readableLength < LINES.length / 4);
  assert.equal(asked(), before);
  let text = '';
  await eventually(
    () => {
      text += connection.read() ?? '';
      return text.length === LINES.length;
    },
    { because: 'everything was read' },
  );
  assert.equal(text, LINES.toString());
});

test('few chunks, and bytes of no chunks, pass as they are', async () => {
  const { connection } = open();
  const pieces: Buffer[] = [];
  connection.on('data', (piece: Buffer) => pieces.push(piece));
  await turn();
  const large = Buffer.alloc(64 * 1024, 'l');
  assert.equal(connection.push(large), true);
  assert.equal(pieces[0], large);
});

test('what waits is passed on when pacing ends', async () => {
  const connection = new Readable({ highWaterMark: 64 * 1024, read: () => undefined });
  paceChunks(connection, new TurnBudget(1000));
  connection.push(LINES);
  connection.push(Buffer.from('more'));
  assert.ok(connection.readableLength < LINES.length);
  endPacing(connection);
  connection.push(null);
  assert.equal(Buffer.concat(await connection.toArray()).toString(), `${LINES}more`);
});
