import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, test } from 'node:test';
import { onAbort, orAbort } from './abort.ts';

describe('onAbort', () => {
  test('onAbort calls at the abort, and at once for a signal that has aborted', () => {
    const controller = new AbortController();
    let calls = 0;
    const count = () => {
      calls += 1;
    };
    onAbort(controller.signal, count);
    assert.equal(calls, 0);
    controller.abort();
    assert.equal(calls, 1);
    onAbort(controller.signal, count);
    assert.equal(calls, 2);
  });

  test('onAbort calls no more and leaves no listener once it is disposed', () => {
    const controller = new AbortController();
    onAbort(controller.signal, () => assert.fail('called'))[Symbol.dispose]();
    assert.equal(getEventListeners(controller.signal, 'abort').length, 0);
    controller.abort();
  });
});

describe('orAbort', () => {
  const never = new Promise<never>(() => undefined);

  test('settles as the promise does, and leaves no listener', async () => {
    const { signal } = new AbortController();
    assert.equal(await orAbort(Promise.resolve('done'), signal), 'done');
    await assert.rejects(orAbort(Promise.reject(new Error('failed')), signal), /failed/);
    assert.equal(getEventListeners(signal, 'abort').length, 0);
  });

  test("rejects with the signal's reason while the promise is pending", async () => {
    const controller = new AbortController();
    const waiting = orAbort(never, controller.signal);
    controller.abort(new Error('enough'));
    await assert.rejects(waiting, /enough/);
  });

  test('orAbort rejects for a signal that has aborted, also when the promise has settled', async () => {
    const late = AbortSignal.abort(new Error('late'));
    await assert.rejects(orAbort(Promise.resolve('done'), late), /late/);
    // The rejection of the promise is handled, else the process would end.
    await assert.rejects(orAbort(Promise.reject(new Error('failed')), late), /late/);
  });
});
