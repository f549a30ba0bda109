/**
 * Times within which a server notices what another server does. They are the design's, without a factor for load: the
 * quickest of many attempts counts, because a busy machine delays some of them and a product that is too slow all.
 */
import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import type { SandboxId } from '@cloche/contract';
import type { SandboxesWorld } from '../../testing/sandboxes.ts';
import { NEEDS_POSTGRES, TestServers } from '../../testing/servers.ts';
import { LOOK_AGAIN_MS } from '../platform/db/notifications.ts';

const ATTEMPTS = 40;

/** Repeats `attempt`, which returns a time, until one of them is quick enough. Returns the shortest time. */
async function quickest(withinMs: number, attempt: () => Promise<number>): Promise<number> {
  let shortestMs = Number.POSITIVE_INFINITY;
  for (let left = ATTEMPTS; left > 0 && shortestMs > withinMs; left -= 1) {
    shortestMs = Math.min(shortestMs, await attempt());
  }
  return shortestMs;
}

/** Ends the run that hangs in the sandbox. */
async function interrupt({ driver }: SandboxesWorld, id: SandboxId): Promise<void> {
  const agent = driver.agentOf(id);
  const [contextId = ''] = agent.contexts.keys();
  await agent.client().interrupt(contextId, AbortSignal.timeout(60_000));
}

/**
 * Creates a sandbox on `a` and runs code in it on `b` at once. Returns the time from `ready` on `a` to the result. It is
 * infinite if the creation took so long that `b` may have found the end of it by looking again at the right moment.
 */
async function timeToResult(a: SandboxesWorld, b: SandboxesWorld): Promise<number> {
  const release = a.driver.holdLaunches();
  const { id } = await a.create();
  const looks = mock.method(b.server.core.sandboxes, 'find');
  const result = b.run(id, '1 + 1').then(() => performance.now());
  // The first look finds the sandbox for the key; each further one waits for the next change.
  await b.until(() => looks.mock.callCount() > 1);
  const waitsFrom = performance.now();
  looks.mock.restore();
  const ready = a.waitFor(id, 'ready').then(() => performance.now());
  release();
  a.driver.launchGate = undefined;
  const [resultAt, readyAt] = await Promise.all([result, ready]);
  await a.kill(id);
  return readyAt - waitsFrom < LOOK_AGAIN_MS / 2 ? resultAt - readyAt : Number.POSITIVE_INFINITY;
}

describe('a server beside another one', { skip: NEEDS_POSTGRES }, () => {
  it('a server beside another one shows within half a second that something runs through the other one', async () => {
    await using open = await TestServers.open(3);
    const [a, ...others] = open.servers as [SandboxesWorld, ...SandboxesWorld[]];
    for (const server of open.servers) await server.renewLease();
    const id = await a.createReady();
    const shown = (status: string) =>
      Promise.all(others.map((other) => other.until(async () => (await other.get(id)).status === status)));
    const timeToShow = async () => {
      const begunAt = performance.now();
      const run = a.run(id, 'hang');
      await shown('running');
      const shownAt = performance.now();
      await interrupt(a, id);
      await run;
      // The server has written everything then, so that it begins to gather changes with the next run.
      await shown('idle');
      return shownAt - begunAt;
    };
    const shortestMs = await quickest(500, timeToShow);
    assert.ok(shortestMs <= 500, `${shortestMs} ms`);
  });

  it('a server beside another one has the result of a run within 50 ms of the end of a creation that the other one has begun', async () => {
    await using open = await TestServers.open(2);
    const [a, b] = open.servers as [SandboxesWorld, SandboxesWorld];
    const shortestMs = await quickest(50, () => timeToResult(a, b));
    assert.ok(shortestMs <= 50, `${shortestMs} ms`);
  });

  it('a server beside another one has it within 1.1 s if it hears of no change', async () => {
    await using open = await TestServers.open(2);
    const [a, b] = open.servers as [SandboxesWorld, SandboxesWorld];
    await b.notifications.close();
    const shortestMs = await quickest(1_100, () => timeToResult(a, b));
    assert.ok(shortestMs <= 1_100, `${shortestMs} ms`);
  });
});
