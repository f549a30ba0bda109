import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { CodeRunEvent } from '@cloche/contract';
import { openSandboxes } from '../../../testing/sandboxes.ts';

async function collect(events: AsyncIterable<CodeRunEvent>): Promise<CodeRunEvent[]> {
  const all: CodeRunEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

describe('streaming a run', () => {
  const call = (sandboxId: string, code: string, body: object = {}) => ({
    params: { sandboxId },
    body: { code, language: 'python', ...body },
  });

  it('streaming a run yields what happens as it happens, and the result last', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const events = await collect(await world.stream(call(id, 'print a\nvalue b\nfail Oops c')));
    assert.deepEqual(
      events.map(({ type }) => type),
      ['stdout', 'output', 'error', 'complete'],
    );
    const last = events.at(-1);
    assert.ok(last?.type === 'complete');
    assert.equal(last.data.error?.name, 'Oops');
    assert.equal(last.data.stdout, 'a\n');
  });

  it('streaming a run tells an error of the service as an event too', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const events = await collect(await world.stream(call(id, 'hang', { timeoutMs: 30 })));
    assert.deepEqual(
      events.map(({ type }) => type),
      ['error', 'complete'],
    );
  });

  it('streaming a run cancels the run when its reader leaves', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    for await (const event of await world.stream(call(id, 'print a\nhang'))) {
      if (event.type === 'stdout') break;
    }
    assert.equal((await world.run(id, 'print next')).stdout, 'next\n');
    assert.equal((await world.get(id)).status, 'idle');
  });

  it('streaming a run cancels the run when its client is gone', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const client = new AbortController();
    const events = await world.stream({ ...call(id, 'print a\nhang'), signal: client.signal });
    await assert.rejects(
      async () => {
        for await (const event of events) if (event.type === 'stdout') client.abort();
      },
      { code: 'unavailable' },
    );
    assert.equal((await world.run(id, 'print next')).stdout, 'next\n');
  });

  it('streaming a run rejects before it opens for a sandbox that takes no work', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    await world.kill(id);
    await assert.rejects(world.stream(call(id, 'print a')), { code: 'sandbox_destroyed' });
  });
});
