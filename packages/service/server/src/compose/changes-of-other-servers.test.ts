/** Tests that requests which wait at one server notice changes that another server of the same database makes. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it, mock } from 'node:test';
import type { SandboxId } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { repositoryOf } from '../../testing/sandbox-repository.ts';
import type { SandboxesWorld } from '../../testing/sandboxes.ts';
import { NEEDS_POSTGRES, TestServers } from '../../testing/servers.ts';
import { cutNotifications } from '../../testing/test-database.ts';
import { Executions } from '../features/sandbox-records/executions.ts';
import { AwaitSandbox } from '../features/sandboxes/use/await-sandbox.ts';
import { LOOK_AGAIN_MS, sharedChanges } from '../platform/db/notifications.ts';

/** A wait so long that a test that depends on it fails by its own time limit. */
const NEVER_MS = 600_000;

interface Wait {
  readonly status: Promise<string>;
  isOver: boolean;
  looks: number;
}

/** Waits on a server until a sandbox is ready. Resolves when the wait has begun. */
async function beginWait(
  server: SandboxesWorld,
  id: SandboxId,
  { lookAgainMs, signal }: { lookAgainMs: number; signal: AbortSignal },
): Promise<Wait> {
  const sandboxes = repositoryOf(server);
  const changes = sharedChanges<SandboxId>('sandbox', server.notifications, lookAgainMs);
  const find = async (each: string) => {
    const record = await sandboxes.find(each);
    wait.looks += 1;
    return record;
  };
  const counted = Object.assign(Object.create(sandboxes), { find });
  const executions = new Executions(server.clock, changes);
  const awaitSandbox = new AwaitSandbox(counted, changes, { of: () => executions });
  const ready = awaitSandbox.status(id, 'ready', NEVER_MS, signal);
  const status = ready.then((record) => {
    wait.isOver = true;
    return record.status;
  });
  const wait: Wait = { status, isOver: false, looks: 0 };
  await eventually(() => wait.looks > 0, { because: 'the server waits' });
  return wait;
}

describe('a server whose sandbox another server creates', { skip: NEEDS_POSTGRES }, () => {
  let open: TestServers;
  let creator: SandboxesWorld;
  let other: SandboxesWorld;
  let third: SandboxesWorld;
  let release: () => void;
  let id: SandboxId;
  let ending: AbortController;
  const wait = (server: SandboxesWorld, lookAgainMs: number) =>
    beginWait(server, id, { lookAgainMs, signal: ending.signal });

  beforeEach(async () => {
    ending = new AbortController();
    open = await TestServers.open(3);
    [creator, other, third] = open.servers as [SandboxesWorld, SandboxesWorld, SandboxesWorld];
    release = creator.driver.holdLaunches();
    ({ id } = await creator.create());
  });
  afterEach(async () => {
    ending.abort();
    release();
    await open[Symbol.asyncDispose]();
  });

  it('a server whose sandbox another server creates runs code in it when the other one has made it ready', async () => {
    const looks = mock.method(other.server.core.sandboxes, 'find');
    const running = other.run(id, '1 + 1');
    // The first look finds the sandbox for the key; each further one waits for the next change.
    await eventually(() => looks.mock.callCount() > 1, { because: 'the run waits' });
    release();
    assert.equal((await running).sandboxId, id);
  });

  it('hears that it is ready; one that neither hears nor looks again waits on', async () => {
    await third.notifications.close();
    const [hears, isDeaf] = [await wait(other, NEVER_MS), await wait(third, NEVER_MS)];
    release();
    assert.equal(await hears.status, 'ready');
    assert.deepEqual([isDeaf.isOver, isDeaf.looks], [false, 1]);
  });

  it('finds that it is ready by looking again, if it hears nothing', async () => {
    await other.notifications.close();
    const looking = await wait(other, 1);
    release();
    assert.equal(await looking.status, 'ready');
    assert.ok(LOOK_AGAIN_MS <= 1_000);
  });

  it('a server whose sandbox another server creates finds it when its connection for notifications is there again', async () => {
    const waiting = await wait(other, NEVER_MS);
    // Nobody hears the change: the creator cannot tell it either.
    await creator.notifications.close();
    release();
    await creator.waitFor(id, 'ready');
    assert.equal(waiting.isOver, false);
    await cutNotifications(creator.db);
    assert.equal(await waiting.status, 'ready');
  });
});
