import assert from 'node:assert/strict';
import { it } from 'node:test';
import { eventually } from './eventually.ts';

it('eventually resolves once the condition holds', async () => {
  let looks = 0;
  await eventually(() => ++looks === 3, { because: 'the third look' });
  assert.equal(looks, 3);
});

it('eventually says what it waited for, and how long', async () => {
  const waiting = eventually(async () => false, { within: 20, because: 'the sun rises' });
  await assert.rejects(waiting, { message: 'not within 20 ms: the sun rises' });
});
