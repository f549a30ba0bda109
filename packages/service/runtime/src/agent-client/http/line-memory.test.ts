import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { AgentError } from '../../driver/runtime-driver.ts';
import { SandboxLineMemory, ServerLineMemory } from './line-memory.ts';

const MEBIBYTE = 1024 * 1024;
const never = new AbortController().signal;
const notOverdue = () => assert.fail('it was in time');

describe('lines that are not whole yet', () => {
  it('lines that are not whole yet share a store as long as they are short, and wait for nothing', () => {
    const sandbox = new SandboxLineMemory(new ServerLineMemory());
    for (let stream = 0; stream < 8; stream += 1) {
      assert.equal(sandbox.open(never, notOverdue).hold(MEBIBYTE), undefined);
    }
  });

  it('lines that are not whole yet are long one at a time in a sandbox', async () => {
    const sandbox = new SandboxLineMemory(new ServerLineMemory());
    using first = sandbox.open(never, notOverdue);
    using second = sandbox.open(never, notOverdue);
    await first.hold(9 * MEBIBYTE);
    assert.equal(first.hold(50 * MEBIBYTE), undefined, 'whose turn it is may hold a whole line');
    let isSecond = false;
    const waiting = second.hold(9 * MEBIBYTE)?.then(() => {
      isSecond = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(isSecond, false);
    first.release();
    await waiting;
    assert.equal(isSecond, true);
  });

  it('lines that are not whole yet are a few at a time in the server, over all sandboxes', async () => {
    const all = new ServerLineMemory({ atOnce: 2 });
    const streams = Array.from({ length: 3 }, () => new SandboxLineMemory(all).open(never, notOverdue));
    const order: number[] = [];
    const holding = streams.map((stream, index) => stream.hold(9 * MEBIBYTE)?.then(() => order.push(index)));
    await Promise.all(holding.slice(0, 2));
    assert.deepEqual(order, [0, 1]);
    streams[1]?.release();
    await holding[2];
    assert.deepEqual(order, [0, 1, 2]);
    for (const stream of streams) stream.release();
  });

  it('lines that are not whole yet give back what they held, so that the next ones find room', () => {
    const sandbox = new SandboxLineMemory(new ServerLineMemory());
    const stream = sandbox.open(never, notOverdue);
    for (let line = 0; line < 100; line += 1) {
      assert.equal(stream.hold(MEBIBYTE), undefined);
      stream.release();
    }
  });

  it('lines that are not whole yet stop waiting when they are given up, and then block no others', async () => {
    const sandbox = new SandboxLineMemory(new ServerLineMemory({ atOnce: 1 }));
    const abort = new AbortController();
    using first = sandbox.open(never, notOverdue);
    await first.hold(9 * MEBIBYTE);
    const waiting = sandbox.open(abort.signal, notOverdue).hold(9 * MEBIBYTE);
    abort.abort(new Error('enough'));
    await assert.rejects(async () => waiting, /enough/);
    first.release();
    using third = sandbox.open(never, notOverdue);
    await third.hold(9 * MEBIBYTE);
  });

  it('lines that are not whole yet are reported when they take too long', async () => {
    const overdue = Promise.withResolvers<AgentError>();
    using stream = new SandboxLineMemory(new ServerLineMemory({ timeLimitMs: 1 })).open(never, overdue.resolve);
    await stream.hold(9 * MEBIBYTE);
    assert.equal((await overdue.promise).kind, 'misbehaved');
  });
});
