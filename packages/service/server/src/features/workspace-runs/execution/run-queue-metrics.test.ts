import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ORG } from '../../../../testing/seeded-organizations.ts';
import { openRuns, type RunsWorld } from '../../../../testing/workspace-runs.ts';
import { addRunQueueMetrics } from './run-queue-metrics.ts';

async function read({ metrics }: RunsWorld, name: string): Promise<number> {
  const line = (await metrics.metrics()).split('\n').find((each) => each.startsWith(`${name} `));
  assert.ok(line, name);
  return Number(line.slice(name.length));
}

describe('the metrics of workspace runs', () => {
  it('the metrics of workspace runs have the queued and the running ones, and the time that the first has waited', async () => {
    await using world = await openRuns();
    addRunQueueMetrics(world);
    const all = async () => [
      await read(world, 'cloche_workspace_runs{status="queued"}'),
      await read(world, 'cloche_workspace_runs{status="running"}'),
      await read(world, 'cloche_workspace_run_queue_age_seconds'),
    ];
    assert.deepEqual(await all(), [0, 0, 0]);
    await world.limits.setOrganization(ORG, { concurrentWorkspaceRuns: 1 });
    const release = world.driver.holdLaunches();
    const first = await world.startRun('print x');
    await world.until(() => world.driver.launches.length === 1);
    world.clock.advance(3_000);
    const second = await world.startRun('print x');
    world.clock.advance(4_000);
    assert.deepEqual(await all(), [2, 0, 7]);
    release();
    await Promise.all([world.finished(first), world.finished(second)]);
    assert.deepEqual(await all(), [0, 0, 0]);
  });
});
