import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FINISHED_RUN_STATUSES, type ResourceEvent, WORKSPACE_RUN_STATUSES } from '@cloche/contract';
import { openSandboxes } from '../../../../testing/sandboxes.ts';
import { OTHER_PROJECT } from '../../../../testing/seeded-organizations.ts';
import { ARCHIVE, newRun, runRepositoryOf } from '../../../../testing/workspace-runs.ts';
import { UNAUDITED } from '../../../platform/call/call.ts';
import { ProjectChanges } from '../../projects/project-changes.ts';
import { allowsRun, RUN_TRANSITIONS, type RunTransitionName, toWorkspaceRun } from './workspace-run.ts';

describe('the statuses of a workspace run', () => {
  it('the statuses of a workspace run follow the table: a finished run changes no more, and a run is started once', () => {
    const names = Object.keys(RUN_TRANSITIONS) as RunTransitionName[];
    for (const status of FINISHED_RUN_STATUSES) {
      assert.deepEqual(
        names.filter((name) => allowsRun(name, status)),
        [],
      );
    }
    const starting = WORKSPACE_RUN_STATUSES.filter((status) => allowsRun('queue', status));
    assert.deepEqual(starting, ['archived']);
    const replaceable = WORKSPACE_RUN_STATUSES.filter((status) => allowsRun('archive', status));
    assert.deepEqual(replaceable, ['awaiting_archive', 'archived']);
  });

  it('the statuses of a workspace run change if the status is still the one that was read, each with its event', async () => {
    await using world = await openSandboxes();
    const runs = runRepositoryOf(world);
    const events: ResourceEvent[] = [];
    world.outbox.onCommitted((event) => events.push(event));
    await runs.insert(UNAUDITED, newRun(), 10);
    const archived = await runs.transition(newRun(), 'archive', { archive: ARCHIVE });
    assert.deepEqual([archived?.status, archived?.archive], ['archived', ARCHIVE]);
    assert.equal(await runs.transition(newRun(), 'cancel', {}), undefined);
    assert.ok(archived);
    assert.equal(await runs.transition(archived, 'succeed', {}), undefined);
    assert.equal((await runs.transition(archived, 'queue', { queuedAt: 2 }))?.queuedAt, 2);
    assert.deepEqual(
      events.map(({ type }) => type),
      ['workspace_run.awaiting_archive', 'workspace_run.archived', 'workspace_run.queued'],
    );
    assert.deepEqual(events[1]?.data, { workspaceRun: toWorkspaceRun(archived) });
  });

  it('the statuses of a workspace run that a server has claimed change by this claim alone', async () => {
    await using world = await openSandboxes();
    const runs = runRepositoryOf(world);
    await runs.insert(UNAUDITED, newRun(), 10);
    await world.db
      .updateTable('workspace_runs')
      .set({ status: 'queued', step: 'launching', claimed_by: 'srv_1:a' })
      .execute();
    const queued = newRun({ status: 'queued' });
    assert.equal(await runs.transition(queued, 'cancel', {}), undefined);
    assert.equal(await runs.transition(queued, 'run', {}, { claim: 'srv_1:b' }), undefined);
    assert.equal((await runs.transition(queued, 'run', {}, { claim: 'srv_1:a' }))?.status, 'running');
  });
});

describe('a new workspace run', () => {
  it('a new workspace run is one for each idempotency record, and refused beyond the limit of unfinished ones', async () => {
    await using world = await openSandboxes();
    const runs = runRepositoryOf(world);
    const first = newRun({ id: 'wrun_a', idempotencyRecordId: 'idem_1' });
    assert.equal((await runs.insert(UNAUDITED, first, 2)).status, 'inserted');
    const again = await runs.insert(UNAUDITED, { ...first, id: 'wrun_b' }, 2);
    assert.ok(again.status === 'exists' && again.record.id === 'wrun_a');
    const second = newRun({ id: 'wrun_c' });
    assert.equal((await runs.insert(UNAUDITED, second, 2)).status, 'inserted');
    assert.deepEqual(await runs.insert(UNAUDITED, newRun({ id: 'wrun_d' }), 2), { status: 'full', used: 2 });
    await runs.transition(second, 'cancel', { finishedAt: 5 });
    assert.equal((await runs.insert(UNAUDITED, newRun({ id: 'wrun_d' }), 2)).status, 'inserted');
  });

  it('a new workspace run shows neither its environment nor how it ended before it has', () => {
    const outcome = { status: 'failed', exitCode: 3 } as const;
    const running = toWorkspaceRun(newRun({ status: 'running', outcome }));
    assert.doesNotMatch(JSON.stringify(running), /hidden|exitCode/);
    assert.equal(toWorkspaceRun(newRun({ status: 'failed', outcome })).exitCode, 3);
  });

  it('a new workspace run keeps its project from being deleted until it has finished', async () => {
    await using world = await openSandboxes();
    const runs = runRepositoryOf(world);
    const run = newRun({ projectId: OTHER_PROJECT });
    await runs.insert(UNAUDITED, run, 10);
    const changes = new ProjectChanges(world);
    const inUse = { status: 'in_use', liveSandboxes: 0, workspaceRuns: 1 };
    assert.deepEqual(await changes.delete(UNAUDITED, OTHER_PROJECT), inUse);
    await runs.transition(run, 'cancel', { finishedAt: 5 });
    assert.equal((await changes.delete(UNAUDITED, OTHER_PROJECT)).status, 'deleted');
    await assert.rejects(runs.insert(UNAUDITED, { ...run, id: 'wrun_2' }, 10), { code: 'not_found' });
  });
});
