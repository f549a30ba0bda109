import assert from 'node:assert/strict';
import { it } from 'node:test';
import { openRuns } from '../../../../testing/workspace-runs.ts';
import { RunQueue } from './run-queue.ts';

it('a run that a dead server worked on can be adopted when the lease of that server has ended', async () => {
  await using world = await openRuns();
  for (const server of world.servers) await server.stop();
  const id = await world.startRun('print x');
  const queue = new RunQueue({ ...world, leaseMs: 6_000 });
  const now = world.clock.now();
  const [project] = await queue.waiting();
  const claimed = await queue.claimFirst(project ?? assert.fail('no project has a queued run'), 'srv_dead:1', now);
  assert.ok(typeof claimed === 'object' && claimed.id === id);
  assert.deepEqual(await queue.adopt('srv_next:1', now + 5_999), []);
  assert.deepEqual(
    (await queue.adopt('srv_next:1', now + 6_000)).map((run) => run.id),
    [id],
  );
});
