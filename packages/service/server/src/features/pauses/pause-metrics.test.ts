/** Metrics of pauses on a real database and a fake runtime. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { LaunchError } from '@cloche/runtime';
import { freezingOf, openPauses, pause, resume } from '../../../testing/pauses.ts';
import { ORG } from '../../../testing/seeded-organizations.ts';

type World = Awaited<ReturnType<typeof openPauses>>;

/** Returns the samples of pauses and wakes, without the buckets of durations. */
async function samples({ metrics }: World): Promise<string[]> {
  const lines = (await metrics.metrics()).split('\n');
  return lines.filter((line) => /^cloche_(pauses_total|wakes_total|wake_seconds_count)/.test(line));
}

it('metrics of pauses count one for any number of requests at once, by their cause', async () => {
  await using world = await openPauses();
  const id = await world.createReady();
  const times = Array.from({ length: 20 });
  await Promise.all(times.map(() => pause(world, id)));
  await Promise.all(times.map(() => resume(world, id)));
  await pause(world, id);
  await world.run(id, 'print x');
  assert.deepEqual(await samples(world), [
    'cloche_pauses_total{by="request",result="done"} 2',
    'cloche_wakes_total{place="memory",by="request",result="done"} 1',
    'cloche_wakes_total{place="memory",by="operation",result="done"} 1',
    'cloche_wake_seconds_count{place="memory"} 2',
  ]);
});

it('metrics of pauses tell refused from failed ones, and time only those that succeed', async () => {
  await using world = await openPauses();
  const id = await world.createReady();
  const freezing = freezingOf(world);
  const { freeze, thaw } = freezing;
  const gone = () => Promise.reject(new LaunchError('unreachable', 'no answer'));
  freezing.freeze = gone;
  await assert.rejects(pause(world, id), { code: 'unavailable' });
  freezing.freeze = freeze;
  await pause(world, id);
  freezing.thaw = gone;
  await assert.rejects(resume(world, id), { code: 'unavailable' });
  freezing.thaw = thaw;
  await world.limits.setOrganization(ORG, { liveSandboxes: 0 });
  await assert.rejects(resume(world, id), { code: 'quota_exceeded' });
  assert.deepEqual(await samples(world), [
    'cloche_pauses_total{by="request",result="failed"} 1',
    'cloche_pauses_total{by="request",result="done"} 1',
    'cloche_wakes_total{place="memory",by="request",result="failed"} 1',
    'cloche_wakes_total{place="memory",by="request",result="refused"} 1',
  ]);
});
