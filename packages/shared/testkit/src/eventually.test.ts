import assert from 'node:assert/strict';
import { it } from 'node:test';
import { eventually, settled } from './eventually.ts';

it('eventually resolves once the condition holds', async () => {
  let looks = 0;
  await eventually(() => ++looks === 3, { because: 'the third look' });
  assert.equal(looks, 3);
});

it('eventually says what it waited for, and how long', async () => {
  const waiting = eventually(async () => false, { within: 20, because: 'the sun rises' });
  await assert.rejects(waiting, { message: 'not within 20 ms: the sun rises' });
});

it('settled resolves with the first figure that stays', async () => {
  const figures = [1, 2, 3];
  assert.equal(await settled(() => figures.shift() ?? 4, { forMs: 1 }), 4);
});

it('settled gives up on a figure that always changes', async () => {
  let figure = 0;
  await assert.rejects(
    settled(() => figure++, { forMs: 1, within: 10 }),
    /^Error: still changes after 10 ms/,
  );
});
