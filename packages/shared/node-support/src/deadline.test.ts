import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import { describe, test } from 'node:test';
import { Deadline } from './deadline.ts';

const LONG_MS = 60_000;

describe('a deadline', () => {
  test('a deadline ends by its time limit', async () => {
    using deadline = new Deadline(1, new AbortController().signal);
    await once(deadline.signal, 'abort');
    assert.equal(deadline.endedBy, 'timeout');
  });

  test('ends with its caller, for the reason of the caller', async () => {
    const caller = new AbortController();
    using deadline = new Deadline(LONG_MS, caller.signal);
    assert.equal(deadline.endedBy, undefined);
    const waiting = deadline.race(new Promise(() => undefined));
    const reason = new Error('the client left');
    caller.abort(reason);
    await assert.rejects(waiting, reason);
    assert.equal(deadline.endedBy, 'caller');
    assert.equal(deadline.signal.reason, reason);
  });

  test('a deadline has ended from the start for a caller that has left', () => {
    using deadline = new Deadline(LONG_MS, AbortSignal.abort());
    assert.equal(deadline.endedBy, 'caller');
  });

  test('a deadline keeps the first end', () => {
    const caller = new AbortController();
    using deadline = new Deadline(LONG_MS, caller.signal);
    deadline.end('canceled');
    const { reason } = deadline.signal;
    caller.abort();
    deadline.end('timeout');
    assert.equal(deadline.endedBy, 'canceled');
    assert.equal(deadline.signal.reason, reason);
  });

  test('a deadline does not end early when it is longer than a timer can be', async () => {
    using deadline = new Deadline(2 ** 40);
    await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(deadline.endedBy, undefined);
  });

  test('a deadline does not end after it is disposed, and leaves no listener', () => {
    const caller = new AbortController();
    const deadline = new Deadline(LONG_MS, caller.signal);
    deadline[Symbol.dispose]();
    assert.equal(getEventListeners(caller.signal, 'abort').length, 0);
    caller.abort();
    assert.equal(deadline.endedBy, undefined);
  });
});
