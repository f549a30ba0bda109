import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Semaphore } from './semaphore.ts';

const never = new AbortController().signal;

test('lets only so many in at a time, in the order in which they came', async () => {
  const semaphore = new Semaphore(2);
  const begun: number[] = [];
  const ends = [0, 1, 2, 3].map(() => Promise.withResolvers<void>());
  const runs = ends.map(({ promise }, index) =>
    semaphore.run(never, async () => {
      begun.push(index);
      await promise;
    }),
  );
  await settle();
  assert.deepEqual(begun, [0, 1]);
  ends[1]?.resolve();
  await runs[1];
  await settle();
  assert.deepEqual(begun, [0, 1, 2]);
  for (const { resolve } of ends) resolve();
  await Promise.all(runs);
  assert.deepEqual(begun, [0, 1, 2, 3]);
});

test('makes room when one fails', async () => {
  const semaphore = new Semaphore(1);
  await assert.rejects(
    semaphore.run(never, () => Promise.reject(new Error('failed'))),
    /failed/,
  );
  assert.equal(await semaphore.run(never, async () => 'in'), 'in');
});

test('lets one that waits give up, without taking a place from anybody', async () => {
  const semaphore = new Semaphore(1);
  const first = Promise.withResolvers<void>();
  const running = semaphore.run(never, () => first.promise);
  const impatient = new AbortController();
  const waiting = semaphore.run(impatient.signal, () => assert.fail('it was let in'));
  const patient = semaphore.run(never, async () => 'in');
  impatient.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  first.resolve();
  await running;
  assert.equal(await patient, 'in');
});

test('lets nobody in whose signal is aborted already', async () => {
  await assert.rejects(
    new Semaphore(1).run(AbortSignal.abort(new Error('late')), () => assert.fail()),
    /late/,
  );
});

/** Lets every task run that waits only for its turn. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
