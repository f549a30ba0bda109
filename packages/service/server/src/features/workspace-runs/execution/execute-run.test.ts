import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { LIMITS, operations, type ResourceEvent } from '@cloche/contract';
import { openRuns, type RunsWorld } from '../../../../testing/workspace-runs.ts';
import { AppError } from '../../../platform/base/app-error.ts';
import { SequenceLog } from '../../../platform/sequence-log/sequence-log.ts';

let world: RunsWorld;
beforeEach(async () => {
  world = await openRuns();
});
afterEach(() => world[Symbol.asyncDispose]());

const states = async (id: string) =>
  (await world.eventsOf(id)).filter((event) => event.type === 'state').map(({ data }) => data.status);
const sandboxOf = async (id: string) => {
  const { sandboxId } = await world.getRun(id);
  return sandboxId && world.get(sandboxId);
};
const liveSandboxes = async () => (await world.call(operations.listSandboxes)).data.length;

describe('a started workspace run', () => {
  it('a started workspace run unpacks, runs its command, keeps the output and destroys its sandbox', async () => {
    const unpacked: unknown[] = [];
    world.unpack = async ({ runId, attempt }) => void unpacked.push(runId, attempt);
    const announced: ResourceEvent[] = [];
    world.outbox.onCommitted((event) => announced.push(event));
    const id = await world.startRun('print one; warn two; print three');
    const run = await world.finished(id);
    assert.deepEqual([run.status, run.exitCode, run.error], ['succeeded', 0, undefined]);
    assert.deepEqual(unpacked, [id, 1]);
    assert.deepEqual(
      (await world.eventsOf(id)).map(({ seq, type, data }) => [seq, type, typeof data === 'string' ? data : 0]),
      [
        [1, 'state', 0],
        [2, 'state', 0],
        [3, 'state', 0],
        [4, 'state', 0],
        [5, 'stdout', 'one\n'],
        [6, 'stderr', 'two\n'],
        [7, 'stdout', 'three\n'],
        [8, 'state', 0],
      ],
    );
    assert.deepEqual(await states(id), ['awaiting_archive', 'archived', 'queued', 'running', 'succeeded']);
    const sandbox = await sandboxOf(id);
    assert.deepEqual([sandbox?.status, sandbox?.metadata], ['destroyed', { workspaceRun: id }]);
    assert.deepEqual(world.driver.launches.at(-1)?.hints.expectsImmediateLoad, true);
    const types = announced.filter(({ type }) => type.startsWith('workspace_run.')).map(({ type }) => type);
    assert.deepEqual(types.slice(-3), ['workspace_run.queued', 'workspace_run.running', 'workspace_run.succeeded']);
    const usage = await world.db.selectFrom('usage_hours').select('workspace_runs').execute();
    assert.deepEqual(
      usage.map(({ workspace_runs }) => workspace_runs),
      [1],
    );
  });

  it('a started workspace run is failed by another exit code, and timed out by its limit', async () => {
    const failed = await world.finished(await world.startRun('print x; exit 3'));
    assert.deepEqual([failed.status, failed.exitCode, failed.error], ['failed', 3, undefined]);
    const late = await world.finished(await world.startRun('hang', { timeoutMs: 50 }));
    assert.equal(late.status, 'timed_out');
    assert.equal(await liveSandboxes(), 0);
  });

  it('a started workspace run has a sandbox that lives as long as a command of a day may take', async () => {
    const { sandboxId } = await world.running(await world.startRun('hang', { timeoutMs: 86_400_000 }));
    const { createdAt, expiresAt } = await world.get(sandboxId);
    assert.ok(Date.parse(expiresAt) - Date.parse(createdAt) > 86_400_000);
    await world.kill(sandboxId);
  });

  it('a started workspace run is started once for one idempotency key, and refused for another or without an archive', async () => {
    const workspaceRunId = await world.archived({ command: ['sh', 'hang'] });
    const start = (recordId: string, id: string = workspaceRunId) =>
      world.call(operations.startWorkspaceRun, { params: { workspaceRunId: id }, idempotency: { recordId } });
    assert.equal((await start('idem_1')).workspaceRun.status, 'queued');
    await world.running(workspaceRunId);
    assert.equal((await start('idem_1')).workspaceRun.status, 'running');
    await assert.rejects(start('idem_2'), { code: 'conflict', details: { status: 'running' } });
    const { id } = (await world.call(operations.createWorkspaceRun, { body: { command: 'x' } })).workspaceRun;
    await assert.rejects(start('idem_3', id), { code: 'conflict', details: { status: 'awaiting_archive' } });
  });

  it('a started workspace run is failed where its archive cannot be unpacked, and unpacks again where that was unavailable', async () => {
    let attempts = 0;
    world.unpack = async () => {
      attempts += 1;
      throw attempts === 1 ? new AppError('unavailable', 'later') : new AppError('disk_full', 'The disk is full.');
    };
    const run = await world.finished(await world.startRun('print x'));
    assert.deepEqual(
      [run.status, run.error],
      ['failed', { code: 'archive_not_unpacked', message: 'The disk is full.' }],
    );
    assert.equal(attempts, 2);
    assert.equal(await liveSandboxes(), 0);
  });
});

describe('a workspace run whose sandbox ends', () => {
  it('a workspace run whose sandbox ends is failed with sandbox_lost and not run again, however the sandbox ended', async () => {
    const killed = await world.startRun('print x; hang');
    const lost = await world.startRun('print x; hang');
    await world.kill((await world.running(killed)).sandboxId);
    world.driver.lose((await world.running(lost)).sandboxId);
    for (const id of [killed, lost]) {
      const run = await world.finished(id);
      assert.deepEqual([run.status, run.error?.code], ['failed', 'sandbox_lost']);
    }
    assert.equal(world.driver.launches.length, 2);
    assert.equal(await liveSandboxes(), 0);
  });

  it('a workspace run whose sandbox ends gets no sandbox from a server that was paused until another one had taken the run over', async () => {
    const { createSandbox } = world.server.core;
    const create = createSandbox.create.bind(createSandbox);
    const begun = Promise.withResolvers<void>();
    const goesOn = Promise.withResolvers<void>();
    let late: Promise<unknown> = Promise.resolve();
    createSandbox.create = (...request) => {
      const created = goesOn.promise.then(() => create(...request));
      late = created;
      begun.resolve();
      return created;
    };
    const id = await world.startRun('hang');
    await begun.promise;
    const taken = { claimed_by: 'srv_2:earlier', claimed_until: Number.MAX_SAFE_INTEGER };
    await world.db.updateTable('workspace_runs').set(taken).where('id', '=', id).execute();
    goesOn.resolve();
    await assert.rejects(late, { name: 'ClaimLostError' });
    assert.equal(await liveSandboxes(), 0);
  });

  it('a workspace run whose sandbox ends is failed with the reason where the sandbox cannot be created', async () => {
    const run = await world.finished(
      await world.startRun('print x', { networkPolicy: { mode: 'allowlist', hosts: ['a.test'] } }),
    );
    assert.deepEqual([run.status, run.error?.code], ['failed', 'sandbox_failed']);
    assert.match(run.error?.message ?? '', /cannot enforce the network mode/);
  });
});

describe('canceling a workspace run', () => {
  it('canceling a workspace run ends its command with SIGTERM first, exports nothing, and is final', async () => {
    const id = await world.startRun('print x; hang', { artifacts: ['**'] });
    const { sandboxId } = await world.running(id);
    assert.equal((await world.cancelRun(id)).status, 'running');
    const run = await world.finished(id);
    assert.deepEqual([run.status, run.artifactIds], ['canceled', []]);
    assert.deepEqual((await world.cancelRun(id)).finishedAt, run.finishedAt);
    assert.deepEqual(
      (await world.listCommands(sandboxId)).map(({ status }) => status),
      ['killed'],
    );
    assert.equal(await liveSandboxes(), 0);
  });

  it('canceling a workspace run ends one whose sandbox is being created, or whose archive is being unpacked', async () => {
    const release = world.driver.holdLaunches();
    const launching = await world.startRun('print x');
    await world.until(() => world.driver.launches.length === 1);
    await world.cancelRun(launching);
    assert.equal((await world.finished(launching)).status, 'canceled');
    release();
    const unpacking = Promise.withResolvers<void>();
    world.unpack = (_id, _files, signal) => {
      unpacking.resolve();
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    };
    const second = await world.startRun('print x');
    await unpacking.promise;
    await world.cancelRun(second);
    assert.equal((await world.finished(second)).status, 'canceled');
    assert.equal(await liveSandboxes(), 0);
  });

  it('canceling a workspace run in the queue ends it at once', async () => {
    await world.limits.setOrganization('org_1', { concurrentWorkspaceRuns: 1 });
    await world.running(await world.startRun('hang'));
    const id = await world.startRun('print x');
    assert.equal((await world.cancelRun(id)).status, 'canceled');
    assert.equal(world.driver.launches.length, 1);
  });
});

describe('the artifacts of a workspace run', () => {
  const write = (id: string, files: readonly string[]) => {
    world.unpack = async (_run, sandboxFiles, signal) => {
      for (const path of files) {
        const directory = path.split('/').slice(0, -1).join('/');
        if (directory) await sandboxFiles.makeDirectory(directory, signal);
        const { Readable } = await import('node:stream');
        await sandboxFiles.write(path, { open: () => Readable.from([Buffer.from(path)]) }, {}, signal);
      }
    };
    return id;
  };

  it('the artifacts of a workspace run are the files that its patterns select, also after a failure; what was not exported is an event', async () => {
    write('', ['dist/a.js', 'dist/deep/b.js', 'other.txt', 'dist/.hidden']);
    const id = await world.startRun('exit 1', { artifacts: ['dist/**', '*.xml', 'dist/*.js'] });
    const run = await world.finished(id);
    assert.equal(run.status, 'failed');
    const artifacts = (await world.eventsOf(id)).filter((event) => event.type === 'artifact').map(({ data }) => data);
    assert.deepEqual(
      artifacts.map(({ path, error }) => [path, error?.code]),
      [
        ['dist/a.js', undefined],
        ['dist/deep/b.js', undefined],
        ['*.xml', 'not_found'],
      ],
    );
    assert.deepEqual(
      run.artifactIds,
      artifacts.flatMap(({ artifactId }) => artifactId ?? []),
    );
    const filter = { orgId: run.orgId, projectIds: undefined, sandboxId: undefined, name: undefined };
    const kept = await world.artifacts.list({ ...filter, workspaceRunId: id }, world.clock.now(), { limit: 100 });
    assert.deepEqual(kept.map(({ path }) => path).sort(), ['dist/a.js', 'dist/deep/b.js']);
  });

  it('the artifacts of a workspace run are at most a thousand; an event says that there were more', async () => {
    write('', ['out/a', 'out/b']);
    const { unpack } = world;
    world.unpack = async (attempt, ...more) => {
      // As a server has written that died before the last two, because a thousand exports take many seconds.
      const log = new SequenceLog(world, { keptBytes: 1_000_000 });
      const data = (index: number) => ({ path: `earlier/${index}`, artifactId: `art_earlier${index}` });
      const earlier = Array.from({ length: LIMITS.workspaceRunArtifacts - 1 }, (_, index) => data(index));
      await log.append(
        attempt.runId,
        earlier.map((each) => ({ type: 'artifact', data: each })),
      );
      return unpack(attempt, ...more);
    };
    const id = await world.startRun('exit 0', { artifacts: ['out/*'] });
    const { status, artifactIds } = await world.finished(id);
    assert.deepEqual([status, new Set(artifactIds).size], ['succeeded', LIMITS.workspaceRunArtifacts]);
    const query = { afterSeq: LIMITS.workspaceRunArtifacts - 1, limit: 1000 };
    const { data } = await world.call(operations.listWorkspaceRunEvents, { params: { workspaceRunId: id }, query });
    const reported = data.flatMap((event) => (event.type === 'artifact' ? [event.data] : []));
    assert.deepEqual(
      reported.slice(-2).map(({ path, error }) => [path, error?.code]),
      [
        ['out/a', undefined],
        ['out/*', 'payload_too_large'],
      ],
    );
  });
});
