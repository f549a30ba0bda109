import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { newRun, openRuns, type RunsWorld, runRepositoryOf } from '../../../../testing/workspace-runs.ts';
import { AppError } from '../../../platform/base/app-error.ts';
import { ClaimedRun } from './claimed-run.ts';
import { RunQueue } from './run-queue.ts';

const CLAIM_MS = 30_000;

async function claimedUntil(world: RunsWorld, id: string): Promise<number | null> {
  const query = world.db.selectFrom('workspace_runs').select('claimed_until').where('id', '=', id);
  return (await query.executeTakeFirstOrThrow()).claimed_until;
}

describe('the claim to a workspace run', () => {
  it('the claim to a workspace run is renewed while the server waits to claim another run', async ({ mock }) => {
    await using world = await openRuns();
    const id = await world.startRun('hang');
    await world.running(id);
    const waiting = Promise.withResolvers<void>();
    const granted = Promise.withResolvers<undefined>();
    mock.method(RunQueue.prototype, 'claimFirst', () => {
      waiting.resolve();
      return granted.promise;
    });
    await world.startRun('print x');
    await waiting.promise;
    world.clock.advance(20_000);
    await world.until(async () => (await claimedUntil(world, id)) === world.clock.now() + CLAIM_MS);
    granted.resolve(undefined);
  });

  it('the claim to a workspace run does not stop a run that was claimed after the renewal was sent', async ({
    mock,
  }) => {
    const { renew } = RunQueue.prototype;
    const [sent, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let renewals = 0;
    mock.method(RunQueue.prototype, 'renew', async function (this: RunQueue, ...request: Parameters<typeof renew>) {
      const records = await renew.apply(this, request);
      renewals += 1;
      sent.resolve();
      await answered.promise;
      return records;
    });
    await using world = await openRuns();
    await sent.promise;
    let stopped = false;
    world.unpack = async (_attempt, _files, signal) => {
      answered.resolve();
      await world.until(() => renewals > 1);
      stopped = signal.aborted;
    };
    const id = await world.startRun('print x');
    assert.equal((await world.finished(id)).status, 'succeeded');
    assert.equal(stopped, false);
  });

  it('the claim to a workspace run stops the run at once if the database granted it too late', async () => {
    await using world = await openRuns();
    const claim = { claim: 'srv_0:1', claimMs: CLAIM_MS };
    const runs = runRepositoryOf(world);
    using late = new ClaimedRun(runs, newRun(), { ...claim, sentAt: performance.now() - (CLAIM_MS * 2) / 3 });
    using timely = new ClaimedRun(runs, newRun(), { ...claim, sentAt: performance.now() });
    assert.deepEqual([late.stopped.aborted, timely.stopped.aborted], [true, false]);
  });
});

describe('the archive of a workspace run that another server has adopted', () => {
  it('the archive of a workspace run that another server has adopted is sent as a later attempt, and that the agent refuses the earlier one does not fail the run', async ({
    mock,
  }) => {
    let isCutOff = false;
    for (const name of ['renew', 'adopt'] as const) {
      const { [name]: act } = RunQueue.prototype;
      mock.method(RunQueue.prototype, name, async function (this: RunQueue, ...request: Parameters<typeof act>) {
        if (isCutOff && request[0].startsWith('srv_0:')) throw new Error('the server is cut off');
        return act.apply(this, request);
      });
    }
    await using world = await openRuns();
    const [begun, goesOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const attempts: number[] = [];
    world.unpack = async ({ attempt }) => {
      attempts.push(attempt);
      begun.resolve();
      if (attempt > 1) return;
      await goesOn.promise;
      throw new AppError('conflict', 'The archive of the run is unpacked by a later attempt.');
    };
    const id = await world.startRun('print x; sleep 200');
    await begun.promise;
    isCutOff = true;
    await world.startServer();
    world.clock.advance(CLAIM_MS + 1);
    await world.running(id);
    goesOn.resolve();
    const { status, error } = await world.finished(id);
    assert.deepEqual([status, error], ['succeeded', undefined]);
    assert.deepEqual(attempts, [1, 2]);
  });
});
