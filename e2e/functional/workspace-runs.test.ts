import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomInt, randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkspaceRun, WorkspaceRunEvent } from '@cloche/contract';
import { Cloche, type WorkspaceRun as HandedOver } from '@cloche/sdk';
import { eventually } from '@cloche/testkit/eventually';
import { sameWithEachRuntime } from '../support/claims.ts';
import { lentService } from '../support/lent-service.ts';
import type { LentService } from '../support/service.ts';

/** Rounds of processes that are killed at random moments, five runs each. */
const ROUNDS = Number(process.env.CLOCHE_TEST_KILL_ROUNDS ?? 4);
/** Runs are created, filled, started and finished within this time, more or less. */
const KILLED_WITHIN_MS = 2000;
/** Prints and appends once for each time that it runs. */
const ONCE = 'echo began; echo x >> count; sleep 0.5; echo ended';

let service: LentService;
let archive: Buffer;
before(async () => {
  service = await lentService();
  const folder = mkdtempSync(join(tmpdir(), 'cloche-archive-'));
  writeFileSync(join(folder, 'hello.txt'), 'hello\n');
  archive = execFileSync('tar', ['-czf', '-', '-C', folder, 'hello.txt']);
  rmSync(folder, { recursive: true });
});
after(() => service.close());

async function startRun(body: object): Promise<string> {
  const created = await service.api.post('/v1/workspace-runs', { autoStart: true, ...body });
  assert.equal(created.status, 201, JSON.stringify(created.body));
  const { id } = created.body.workspaceRun;
  const response = await fetch(`${service.url}/v1/workspace-runs/${id}/archive`, {
    method: 'PUT',
    headers: {
      authorization: `Bearer ${service.apiKey}`,
      'content-type': 'application/gzip',
      'idempotency-key': randomUUID(),
    },
    body: archive,
  });
  assert.equal(response.status, 200, await response.text());
  return id;
}

const get = async (id: string): Promise<WorkspaceRun> =>
  (await service.api.get(`/v1/workspace-runs/${id}`)).body.workspaceRun;

/** Waits also while the server does not answer. */
async function finished(id: string): Promise<WorkspaceRun> {
  let run: WorkspaceRun | undefined;
  const look = async () => {
    const answer = await service.api
      .get(`/v1/workspace-runs/${id}?waitFor=finished&waitMs=5000`)
      .catch(() => undefined);
    run = answer?.body.workspaceRun;
    return run?.finishedAt !== undefined;
  };
  await eventually(look, { within: 90_000 });
  return run as WorkspaceRun;
}

async function eventsOf(id: string): Promise<WorkspaceRunEvent[]> {
  return (await service.api.get(`/v1/workspace-runs/${id}/events?limit=1000`)).body.data;
}

async function outputOf(id: string, stream = 'stdout'): Promise<string> {
  const events = (await eventsOf(id)).filter(({ type }) => type === stream);
  return events.map(({ data }) => data).join('');
}

const liveSandboxes = async () => (await service.api.get('/v1/sandboxes')).body.data.length;

describe('a workspace run', () => {
  it('a workspace run runs its command on the uploaded files, and keeps its output and artifacts', async () => {
    const command = 'cat hello.txt; mkdir -p dist/a; cp hello.txt dist/a/; echo $NAME >&2; pwd';
    const id = await startRun({ command, env: { NAME: 'set' }, artifacts: ['dist/**'], metadata: { team: 'a' } });
    const run = await finished(id);
    assert.deepEqual([run.status, run.exitCode, run.archive?.entries], ['succeeded', 0, 1], JSON.stringify(run));
    assert.equal(await outputOf(id), 'hello\n/workspace\n');
    assert.equal(await outputOf(id, 'stderr'), 'set\n');
    const { artifact } = (await service.api.get(`/v1/artifacts/${run.artifactIds[0]}`)).body;
    assert.deepEqual([artifact.workspaceRunId, artifact.path], [id, 'dist/a/hello.txt']);
    const content = await service.api.get(`/v1/artifacts/${artifact.id}/content`);
    assert.equal(content.body, 'hello\n');
    const sandboxes = `/v1/sandboxes?include=historical&metadata.workspaceRun=${id}`;
    const [sandbox] = (await service.api.get(sandboxes)).body.data;
    assert.deepEqual([sandbox.id, sandbox.status], [run.sandboxId, 'destroyed']);
  });

  it('a workspace run has every event once and in order while it prints much, also for a reader that resumes', async () => {
    const id = await startRun({ command: 'seq 1 200000' });
    const { events, exit } = await follow(id, 0);
    assert.equal(exit?.status, 'succeeded');
    assert.deepEqual(
      events.map(({ seq }) => seq),
      Array.from({ length: events.length }, (_, index) => index + 1),
    );
    const output = events.filter(({ type }) => type === 'stdout').map(({ data }) => data);
    assert.equal(output.join(''), `${Array.from({ length: 200_000 }, (_, index) => index + 1).join('\n')}\n`);
    const half = events[Math.floor(events.length / 2)]?.seq ?? 0;
    assert.deepEqual((await follow(id, half)).events, events.slice(half));
  });

  it('a workspace run is canceled with SIGTERM, and with SIGKILL if its command ignores that', async () => {
    const polite = await startRun({ command: "trap 'echo asked; exit 5' TERM; echo up; while :; do sleep 0.05; done" });
    const deaf = await startRun({ command: "trap '' TERM; echo up; while :; do sleep 0.05; done" });
    for (const id of [polite, deaf])
      await eventually(async () => (await outputOf(id)).includes('up'), { within: 30_000 });
    const began = performance.now();
    for (const id of [polite, deaf])
      assert.equal((await service.api.post(`/v1/workspace-runs/${id}/cancel`)).status, 200);
    const asked = await finished(polite);
    assert.deepEqual([asked.status, asked.exitCode], ['canceled', 5]);
    assert.equal(await outputOf(polite), 'up\nasked\n');
    const run = await finished(deaf);
    assert.deepEqual([run.status, run.signal], ['canceled', 'SIGKILL']);
    assert.ok(performance.now() - began > 10_000);
    assert.equal(await liveSandboxes(), 0);
  });

  it('a workspace run is failed with sandbox_lost when its sandbox is destroyed or crashes', async () => {
    const killed = await startRun({ command: 'echo up; sleep 60' });
    const crashed = await startRun({ command: 'echo up; sleep 60' });
    for (const id of [killed, crashed])
      await eventually(async () => (await outputOf(id)).includes('up'), { within: 30_000 });
    await service.api.delete(`/v1/sandboxes/${(await get(killed)).sandboxId}`);
    await service.killInstance((await get(crashed)).sandboxId ?? '');
    for (const id of [killed, crashed]) {
      const run = await finished(id);
      assert.deepEqual([run.status, run.error?.code], ['failed', 'sandbox_lost']);
      assert.equal(await outputOf(id), 'up\n');
    }
    assert.equal(await liveSandboxes(), 0);
  });
});

describe('the command of a workspace run', sameWithEachRuntime('the server keeps its steps in its database'), () => {
  it('the command of a workspace run runs once, whichever process is killed with -9 at whichever moment, and no sandbox is left', async (t) => {
    const client = new Cloche({ url: service.url, apiKey: service.apiKey, maxRetries: 100, timeoutMs: 120_000 });
    /** Number of runs by their status when a process was killed, and by how they ended. */
    const outcomes: Record<string, number> = {};
    let succeeded = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      const parts = ([['server'], ['hostd'], ['server', 'hostd']] as const)[round % 3] ?? [];
      const metadata = { round: String(round) };
      const handedOver = Array.from({ length: 5 }, () => handOver(client, metadata));
      await delay(randomInt(KILLED_WITHIN_MS));
      const killedAt = Date.now();
      await Promise.all(parts.map((part) => service.kill(part)));
      for (const part of parts.toReversed()) await service.restart(part);
      for (const { id } of await Promise.all(handedOver)) {
        const run = await finished(id);
        const events = await eventsOf(id);
        const outcome = run.error?.code ?? run.status;
        const course = `${lastStatus(events, killedAt)}, then ${outcome}`;
        outcomes[course] = (outcomes[course] ?? 0) + 1;
        if (outcome === 'succeeded') succeeded += 1;
        assert.ok(['succeeded', 'sandbox_lost'].includes(outcome), JSON.stringify(run));
        const output = await outputOf(id);
        if (outcome === 'succeeded') {
          assert.equal(output, 'began\nended\n', `${parts}: ${JSON.stringify(events)}`);
          const content = await service.api.get(`/v1/artifacts/${run.artifactIds[0]}/content`);
          assert.equal(content.body, 'x\n');
        } else assert.ok(['', 'began\n'].includes(output), output);
        const sandboxes = `/v1/sandboxes?include=historical&metadata.workspaceRun=${id}`;
        assert.equal((await service.api.get(sandboxes)).body.data.length, 1);
      }
      await eventually(async () => (await liveSandboxes()) === 0, { within: 30_000 });
      assert.equal((await client.workspaceRuns.list({ metadata })).length, 5);
    }
    t.diagnostic(JSON.stringify(outcomes));
    assert.ok(succeeded >= ROUNDS * 4, JSON.stringify(outcomes));
  });
});

/** Creates, fills and starts a run, by way of a client that repeats what was not answered. */
async function handOver(client: Cloche, metadata: Record<string, string>): Promise<HandedOver> {
  const run = await client.workspaceRuns.create({ command: ONCE, artifacts: ['count'], metadata });
  await run.uploadArchive({ bytes: archive, format: 'tar.gz' });
  await delay(randomInt(100));
  return run.start();
}

/** Returns the status that a run had at a time; `not created` before its first event. */
function lastStatus(events: readonly WorkspaceRunEvent[], at: number): string {
  const before = events.filter((event) => event.type === 'state' && Date.parse(event.at) <= at);
  const last = before.at(-1);
  return last?.type === 'state' ? last.data.status : 'not created';
}

async function follow(id: string, afterSeq: number) {
  const response = await fetch(`${service.url}/v1/workspace-runs/${id}/events/stream?afterSeq=${afterSeq}`, {
    headers: { authorization: `Bearer ${service.apiKey}` },
  });
  const frames = (await response.text()).split('\n\n').flatMap((frame) => {
    const data = frame.split('\n').find((line) => line.startsWith('data: '));
    return data === undefined ? [] : [JSON.parse(data.slice(6))];
  });
  const exit = frames.find(({ type }) => type === 'exit')?.data as WorkspaceRun | undefined;
  return { events: frames.filter(({ type }) => type !== 'exit') as WorkspaceRunEvent[], exit };
}
