import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import type { CodeRunEvent } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { readEvents } from '../support/api.ts';
import { lentService } from '../support/lent-service.ts';
import { residentBytes } from '../support/process.ts';
import type { TestService } from '../support/service.ts';

let service: TestService;
let sandboxId: string;
before(async () => {
  service = await lentService();
  sandboxId = (await service.api.readySandbox()).id;
  await service.api.run(sandboxId, '1');
});
after(() => service.close());

async function firstChunkLateMs(): Promise<number> {
  const events = service.api.stream(sandboxId, 'import time\nprint(time.time(), flush=True)\ntime.sleep(0.3)');
  const first = await events.next();
  const lateMs = Date.now() - Number(first.value?.type === 'stdout' && first.value.data) * 1000;
  await collect(events);
  return lateMs;
}

async function collect(events: AsyncIterable<CodeRunEvent>): Promise<CodeRunEvent[]> {
  const all: CodeRunEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

describe('a stream', () => {
  it('a stream has the headers and the frames of the spec', async () => {
    const response = await service.api.openStream(sandboxId, 'print("a")\n1');
    assert.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8');
    assert.equal(response.headers.get('cache-control'), 'no-store');
    const frames = (await response.text()).split('\n\n').filter((frame) => frame && !frame.startsWith(':'));
    for (const frame of frames) {
      const [event, data, ...rest] = frame.split('\n');
      assert.deepEqual(rest, []);
      assert.equal(event, `event: ${JSON.parse((data ?? '').replace(/^data: /, '')).type}`);
    }
    assert.deepEqual(
      frames.map((frame) => /^event: (\w+)/.exec(frame)?.[1]),
      ['stdout', 'output', 'complete'],
    );
  });

  it('a stream carries what is printed before it computes on: the first chunk leaves at once', async () => {
    // Other load on the machine can only add delay, so the best of a few rounds is the service's own.
    let lateMs = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 5; round++) lateMs = Math.min(lateMs, await firstChunkLateMs());
    assert.ok(lateMs < 50, `the first chunk came after ${lateMs.toFixed(1)} ms`);
  });

  it('a stream has an error live and in its complete event', async () => {
    const events = await collect(service.api.stream(sandboxId, '1/0'));
    const error = events.find(({ type }) => type === 'error');
    const complete = events.at(-1);
    assert.equal(error?.type === 'error' && error.data.name, 'ZeroDivisionError');
    assert.equal(complete?.type === 'complete' && complete.data.error?.name, 'ZeroDivisionError');
  });

  it('a stream keeps prints and displays in their order', async () => {
    const events = await collect(service.api.stream(sandboxId, 'print("one")\ndisplay("two")\nprint("three")'));
    const types = events.map(({ type }) => type);
    // A line and its end can come in two events.
    assert.deepEqual(
      types.filter((type, index) => type !== types[index - 1]),
      ['stdout', 'output', 'stdout', 'complete'],
    );
  });

  it('a stream is replayed as its result alone', async () => {
    const key = randomUUID();
    const first = await collect(
      service.api.stream(sandboxId, 'print("once"); import random; random.random()', { key }),
    );
    const response = await service.api.openStream(sandboxId, 'print("once"); import random; random.random()', { key });
    assert.equal(response.headers.get('idempotency-replayed'), 'true');
    const replay = await collect(readEvents(response));
    assert.deepEqual(replay, [first.at(-1)]);
  });

  it('a stream is canceled when its client disconnects, and its key can be used again', async () => {
    const key = randomUUID();
    const abort = new AbortController();
    const code = 'import time\nprint("on", flush=True)\nfor _ in range(600): time.sleep(0.1)';
    const response = await service.api.openStream(sandboxId, code, { key, signal: abort.signal });
    const reader = response.body?.getReader();
    await reader?.read();
    abort.abort();
    const next = await service.api.run(sandboxId, '"free"', { timeoutMs: 10_000 });
    assert.equal(next.outputs[0]?.value, "'free'");
    await eventually(async () => {
      const again = await service.api.openStream(sandboxId, code, { key });
      await again.body?.cancel();
      assert.equal(again.headers.get('idempotency-replayed'), null);
      return again.status === 200;
    });
  });

  it('a stream to a client that stops reading costs bounded memory', async () => {
    const before = residentBytes(service.pid('server'));
    const abort = new AbortController();
    const response = await service.api.openStream(
      sandboxId,
      'import sys\nfor _ in range(70_000): sys.stdout.write("x" * 99 + "\\n")',
      { signal: abort.signal },
    );
    assert.equal(response.status, 200);
    const other = (await service.api.readySandbox()).id;
    await service.api.run(other, '1');
    const grown = residentBytes(service.pid('server')) - before;
    abort.abort();
    assert.ok(grown < 150 * 1024 * 1024, `grew by ${(grown / 2 ** 20).toFixed(0)} MiB`);
  });
});
