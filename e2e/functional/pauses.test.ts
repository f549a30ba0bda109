import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Sandbox } from '@cloche/contract';
import { Cloche } from '@cloche/sdk';
import { eventually } from '@cloche/testkit/eventually';
import { type OwnService, testService } from '../support/service.ts';

let service: OwnService;
before(async () => {
  service = await testService();
});
after(() => service.close());

/** Writes the number of its steps, and its longest time between two of them in seconds. */
const COUNT = `import json, os, time
steps, gap, last = 0, 0, time.time()
while True:
    now = time.time()
    steps, gap, last = steps + 1, max(gap, now - last), now
    with open('/tmp/counting', 'w') as file: json.dump([steps, gap], file)
    os.replace('/tmp/counting', '/tmp/counted')
    time.sleep(0.01)
`;

const path = (id: string) => `/v1/sandboxes/${id}`;
const get = async (id: string): Promise<Sandbox> => (await service.api.get(path(id))).body.sandbox;
async function pause(id: string): Promise<Sandbox> {
  const { status, body } = await service.api.post(`${path(id)}/pause`, {});
  assert.equal(status, 200, JSON.stringify(body));
  return body.sandbox;
}

describe('a paused sandbox on a real host', () => {
  it('a paused sandbox on a real host stands still, and goes on with its variables and processes', async () => {
    const { id } = await service.api.readySandbox();
    await service.api.run(id, 'kept = 41');
    await service.api.post(`${path(id)}/commands`, { command: ['python3', '-c', COUNT], background: true });
    const counted = async () => JSON.parse((await service.api.run(id, "print(open('/tmp/counted').read())")).stdout);
    await eventually(async () => (await counted().catch(() => [0]))[0] > 0);
    const paused = await pause(id);
    assert.deepEqual([paused.status, paused.paused?.memory], ['idle', 'kept']);
    await delay(1_000);
    const { body } = await service.api.post(`${path(id)}/resume`, {});
    assert.equal(body.sandbox.paused, undefined);
    const [first, gap] = await counted();
    assert.ok(gap >= 0.9, `it stood still for ${gap} of 1.0 seconds`);
    await eventually(async () => (await counted())[0] > first);
    assert.equal((await service.api.run(id, 'kept + 1')).outputs[0]?.value, '42');
    await service.api.delete(path(id));
  });

  it('a paused sandbox on a real host wakes for a run, which is executed once for its key', async () => {
    const { id } = await service.api.readySandbox();
    await service.api.run(id, 'count = 0');
    await pause(id);
    const key = randomUUID();
    const body = { code: 'count += 1; count', language: 'python' };
    const first = await service.api.post(`${path(id)}/code/runs`, body, key);
    assert.equal(first.body.run.outputs[0].value, '1');
    assert.equal(first.body.run.stateLost, undefined);
    await pause(id);
    assert.deepEqual((await service.api.post(`${path(id)}/code/runs`, body, key)).body, first.body);
    assert.ok((await get(id)).paused, 'a replay wakes nothing');
    assert.equal((await service.api.run(id, 'count')).outputs[0]?.value, '1');
    await service.api.delete(path(id));
  });

  it('a paused sandbox on a real host is kept over a restart of the server and of hostd', async () => {
    const { id } = await service.api.readySandbox();
    await service.api.run(id, 'kept = 42');
    const paused = await pause(id);
    await service.kill('server');
    await service.restart('hostd');
    await service.restart('server');
    assert.deepEqual(await get(id), paused);
    // Longer than a server that is alone waits for a silent agent.
    await delay(1_000);
    const run = await service.api.run(id, 'kept');
    assert.deepEqual([run.outputs[0]?.value, run.stateLost], ['42', undefined]);
    await service.api.delete(path(id));
  });

  it('a paused sandbox on a real host has ended its streams with sandbox_paused, and no client that had one wakes it', async () => {
    const { id } = await service.api.readySandbox();
    const sandbox = await new Cloche({ url: service.url, apiKey: service.apiKey }).sandboxes.get(id);
    const command = await sandbox.commands.start(['bash', '-c', 'echo begun; sleep 300']);
    const [isBegun, isWatching] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const streams: Record<string, Promise<unknown>> = {
      log: (async () => {
        for await (const event of command.events()) if (event.type === 'log') isBegun.resolve();
      })(),
      watch: (async () => {
        for await (const _ of sandbox.files.watch('/workspace', { onOpen: isWatching.resolve }));
      })(),
    };
    // The types of Node lack its option for headers.
    const headers = { headers: { authorization: `Bearer ${service.apiKey}` } } as unknown as string[];
    const terminal = new WebSocket(`${service.url.replace('http', 'ws')}${path(id)}/pty`, headers);
    await Promise.all([once(terminal, 'message'), isWatching.promise, isBegun.promise]);
    const closed = once(terminal, 'close');
    const ends = Object.entries(streams).map(([name, end]) => assert.rejects(end, { code: 'sandbox_paused' }, name));
    await pause(id);
    await Promise.all(ends);
    const [{ code, reason }] = await closed;
    assert.deepEqual([code, reason], [4410, 'sandbox_paused']);
    // Longer than a client waits before it tries again.
    await delay(2_000);
    assert.ok((await get(id)).paused, 'nothing has woken it');
    await service.api.delete(path(id));
  });

  it('a paused sandbox on a real host is destroyed at once', async () => {
    const { id } = await service.api.readySandbox();
    await pause(id);
    const startedAt = performance.now();
    assert.equal((await service.api.delete(path(id))).body.sandbox.status, 'destroyed');
    assert.ok(performance.now() - startedAt < 5_000);
  });
});
