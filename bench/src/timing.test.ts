import assert from 'node:assert/strict';
import { it } from 'node:test';
import { inTurns } from './timing.ts';

it('a benchmark measures subject and peer in turns, and begins each round with the one that ended the last', async () => {
  const order: string[] = [];
  const act = (name: string) => async (round: number) => order.push(name) && round;
  const values = await inTurns(3, { subject: act('subject'), peer: act('peer'), absent: undefined });
  assert.deepEqual(order, ['subject', 'peer', 'peer', 'subject', 'subject', 'peer']);
  assert.deepEqual(values, { subject: [0, 1, 2], peer: [0, 1, 2], absent: [] });
});
