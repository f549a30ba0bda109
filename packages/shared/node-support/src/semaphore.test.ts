import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Semaphore } from './semaphore.ts';

const never = new AbortController().signal;

test('a semaphore lets a fixed number of callers in at a time, in the order of their calls', async () => {
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

test('a semaphore gives the slot of a failed caller to the next one', async () => {
  const semaphore = new Semaphore(1);
  await assert.rejects(
    semaphore.run(never, () => Promise.reject(new Error('failed'))),
    /failed/,
  );
  assert.equal(await semaphore.run(never, async () => 'in'), 'in');
});

test('a semaphore lets a waiting caller withdraw, and passes the slot to the caller behind it', async () => {
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

test('a semaphore refuses a caller whose signal has aborted already', async () => {
  await assert.rejects(
    new Semaphore(1).run(AbortSignal.abort(new Error('late')), () => assert.fail()),
    /late/,
  );
});

test('a slot that is given back twice lets in one caller', async () => {
  const semaphore = new Semaphore(1);
  const slot = await semaphore.acquire(never);
  const waiting = [semaphore.acquire(never), semaphore.acquire(never)];
  slot[Symbol.dispose]();
  slot[Symbol.dispose]();
  let isThirdIn = false;
  void waiting[1]?.then(() => {
    isThirdIn = true;
  });
  const second = await waiting[0];
  await settle();
  assert.equal(isThirdIn, false);
  second?.[Symbol.dispose]();
  await waiting[1];
});

test('a caller that got its slot keeps it when its signal aborts, and gives it back once', async () => {
  const semaphore = new Semaphore(1);
  const first = await semaphore.acquire(never);
  const caller = new AbortController();
  const waiting = semaphore.acquire(caller.signal);
  first[Symbol.dispose]();
  caller.abort(new Error('too late'));
  const slot = await waiting;
  assert.equal(semaphore.isIdle, false);
  slot[Symbol.dispose]();
  assert.equal(semaphore.isIdle, true);
});

/** Lets every task run that waits only for its turn. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test('a semaphore gives a slot at once, or none, to a caller that does not wait', async () => {
  const semaphore = new Semaphore(1);
  const slot = semaphore.tryAcquire() ?? assert.fail('the slot was free');
  assert.equal(semaphore.tryAcquire(), undefined);
  const waiting = semaphore.acquire(never);
  slot[Symbol.dispose]();
  assert.equal(semaphore.tryAcquire(), undefined, 'callers that wait come first');
  (await waiting)[Symbol.dispose]();
  assert.ok(semaphore.tryAcquire());
});
