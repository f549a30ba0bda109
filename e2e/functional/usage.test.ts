import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { Sandbox, SandboxUsage, UsageRow } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { groupTimeMs } from '../support/group-time.ts';
import { lentService } from '../support/lent-service.ts';
import type { LentService } from '../support/service.ts';

/** Uses one second of a processor. */
const BUSY = 'import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass';
/** Longer than the time between two counts. */
const COUNT_MS = 30_000;

let service: LentService;
let projectId: string;
before(async () => {
  service = await lentService();
  projectId = (await service.api.post('/v1/projects', { name: 'billed' })).body.project.id;
});
after(() => service?.close());

const sandboxIds: string[] = [];
async function readySandbox(): Promise<Sandbox> {
  const sandbox = await service.api.readySandbox({ projectId });
  sandboxIds.push(sandbox.id);
  return sandbox;
}

async function usageOf(sandboxId: string): Promise<SandboxUsage> {
  const { status, body } = await service.api.get(`/v1/sandboxes/${sandboxId}/usage`);
  assert.equal(status, 200, JSON.stringify(body));
  return body.usage;
}

/** Asserts that the processor time that was counted is that of the control group, within 3 % and some milliseconds. */
function assertSameTime(countedMs: number, groupMs: number): void {
  const differenceMs = Math.abs(countedMs - groupMs);
  assert.ok(differenceMs <= groupMs * 0.03 + 100, `${countedMs} ms counted, ${groupMs} ms in the control group`);
}

/** Asserts that memory and disk count for the whole time of an ended sandbox. */
async function assertWholeTime({ id, createdAt, resources }: Sandbox, usage: SandboxUsage): Promise<void> {
  const { destroyedAt } = (await service.api.get(`/v1/sandboxes/${id}`)).body.sandbox;
  assert.equal(usage.to, destroyedAt);
  const durationMs = Date.parse(usage.to) - Date.parse(usage.from);
  assert.equal(usage.memoryMbMs, (resources.memoryMb ?? 0) * durationMs);
  assert.equal(usage.diskMbMs, (resources.diskMb ?? 0) * durationMs);
  assert.ok(Date.parse(usage.from) >= Date.parse(createdAt));
}

describe('the usage of a sandbox', () => {
  it('the usage of a sandbox is counted before its end too, and has the processor time of its control group up to its end', async () => {
    const sandbox = await readySandbox();
    const { id } = sandbox;
    const firstMs = groupTimeMs(service, id);
    await service.api.run(id, BUSY);
    await eventually(async () => (await usageOf(id)).cpuMs >= 900, { within: COUNT_MS });
    await service.api.run(id, BUSY);
    const groupMs = groupTimeMs(service, id) - firstMs;
    await service.api.delete(`/v1/sandboxes/${id}`);
    const usage = await usageOf(id);
    assertSameTime(usage.cpuMs, groupMs);
    await assertWholeTime(sandbox, usage);
  });

  it('the usage of a sandbox loses no time when server, hostd and gateway are killed with -9, and at most the runs since the last count', async () => {
    const sandbox = await readySandbox();
    const { id } = sandbox;
    const firstMs = groupTimeMs(service, id);
    await service.api.run(id, BUSY);
    await service.api.run(id, '1');
    await eventually(async () => (await usageOf(id)).runs === 2, { within: COUNT_MS });
    for (const part of ['server', 'hostd', 'egress'] as const) {
      await service.api.run(id, BUSY);
      await service.kill(part);
      await service.restart(part);
    }
    await service.api.run(id, BUSY);
    const groupMs = groupTimeMs(service, id) - firstMs;
    assert.equal((await service.api.delete(`/v1/sandboxes/${id}`)).body.sandbox.status, 'destroyed');
    const usage = await usageOf(id);
    assertSameTime(usage.cpuMs, groupMs);
    await assertWholeTime(sandbox, usage);
    // The run before the end of the server may not have been counted; the three later ones are.
    assert.ok(usage.runs === 5 || usage.runs === 6, `${usage.runs} of 6 runs`);
  });

  it('usage counts 100 runs after 100 runs, and each command', async () => {
    const { id } = await readySandbox();
    for (let made = 0; made < 100; made += 1) await service.api.run(id, made % 2 ? 'pass' : 'missing');
    await service.api.post(`/v1/sandboxes/${id}/commands`, { command: 'exit 1' });
    await service.api.post(`/v1/sandboxes/${id}/commands`, { command: 'true', background: true });
    await service.api.delete(`/v1/sandboxes/${id}`);
    const { runs, commands } = await usageOf(id);
    assert.deepEqual({ runs, commands }, { runs: 100, commands: 2 });
  });
});

/** Adds up durations of a clock of the test. */
class Stopwatch {
  ms = 0;
  #startedAt = 0;

  start(): void {
    this.#startedAt = performance.now();
  }

  stop(): void {
    this.ms += performance.now() - this.#startedAt;
  }
}

describe('the usage of a sandbox that is paused', () => {
  it('the usage of a sandbox that is paused ten times stands still in each pause but for the disk, and adds up to the clock', async () => {
    const sandbox = await readySandbox();
    const { id, resources } = sandbox;
    const post = async (move: 'pause' | 'resume') => {
      const { status, body } = await service.api.post(`/v1/sandboxes/${id}/${move}`, {});
      assert.equal(status, 200, JSON.stringify(body));
    };
    const [inner, outer] = [new Stopwatch(), new Stopwatch()];
    for (let cycle = 1; cycle <= 10; cycle += 1) {
      await service.api.run(id, 'sum(range(1_000_000))');
      outer.start();
      await post('pause');
      inner.start();
      const { cpuMs, memoryMbMs, pausedMs, diskMbMs } = await usageOf(id);
      if (cycle === 10) {
        await eventually(async () => (await usageOf(id)).pausedMs > pausedMs, { within: COUNT_MS });
        assert.ok((await usageOf(id)).diskMbMs > diskMbMs);
      } else await setTimeout(1_000);
      const after = await usageOf(id);
      assert.deepEqual([after.cpuMs, after.memoryMbMs], [cpuMs, memoryMbMs]);
      inner.stop();
      await post('resume');
      outer.stop();
    }
    await service.api.delete(`/v1/sandboxes/${id}`);
    const usage = await usageOf(id);
    const wholeMs = Date.parse(usage.to) - Date.parse(usage.from);
    assert.equal(usage.memoryMbMs / (resources.memoryMb ?? 0) + usage.pausedMs, wholeMs);
    assert.equal(usage.diskMbMs, (resources.diskMb ?? 0) * wholeMs);
    // A wake counts as live from its beginning, a pause as paused from its end; times of the service are rounded.
    const bounds = [inner.ms * 0.99, outer.ms * 1.01] as const;
    assert.ok(usage.pausedMs >= bounds[0] && usage.pausedMs <= bounds[1], `${usage.pausedMs} ms, not within ${bounds}`);
  });
});

describe('the usage of a project', () => {
  it('the usage of a project is by hour and by day the sum of its sandboxes, with the bytes of its artifacts', async () => {
    const { id } = await readySandbox();
    await service.api.run(id, "open('kept', 'w').write('x' * 12345)");
    const { artifact } = (await service.api.post(`/v1/sandboxes/${id}/artifacts`, { path: 'kept' })).body;
    await service.api.delete(`/v1/sandboxes/${id}`);

    const usages = await Promise.all(sandboxIds.map(usageOf));
    const fields = [
      'cpuMs',
      'memoryMbMs',
      'diskMbMs',
      'pausedMs',
      'egressBytes',
      'ingressBytes',
      'runs',
      'commands',
    ] as const;
    const expected = {
      ...Object.fromEntries(fields.map((field) => [field, usages.reduce((sum, usage) => sum + usage[field], 0)])),
      sandboxMs: usages.reduce((sum, { from, to, pausedMs }) => sum + Date.parse(to) - Date.parse(from) - pausedMs, 0),
      artifactBytes: artifact.sizeBytes,
    };
    assert.equal(artifact.sizeBytes, 12345);
    for (const groupBy of ['hour', 'day']) {
      const from = new Date(Date.now() - 86_400_000).toISOString();
      const query = `from=${from}&groupBy=${groupBy}&projectId=${projectId}`;
      const rows: UsageRow[] = (await service.api.get(`/v1/usage?${query}`)).body.data;
      const names = Object.keys(expected) as (keyof typeof expected)[];
      const sums = names.map((name) => [name, rows.reduce((sum, row) => sum + row[name], 0)]);
      assert.deepEqual(Object.fromEntries(sums), expected, groupBy);
    }
  });
});
