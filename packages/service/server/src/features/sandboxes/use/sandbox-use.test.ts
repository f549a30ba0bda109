import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { OrgId, SandboxId } from '@cloche/contract';
import { type AgentClient, AgentError } from '@cloche/runtime';
import { openSandboxes, type SandboxesWorld } from '../../../../testing/sandboxes.ts';
import { credentialOf } from '../../../../testing/seeded-organizations.ts';
import { AppError } from '../../../platform/base/app-error.ts';
import { CutOffError } from '../../../platform/idempotency/held-claims.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxUse } from './sandbox-use.ts';

describe('SandboxUse', () => {
  let world: SandboxesWorld;
  let use: SandboxUse;
  const never = new AbortController().signal;

  beforeEach(async () => {
    world = await openSandboxes();
    use = world.server.core.sandboxUse;
  });
  afterEach(() => world[Symbol.asyncDispose]());

  const ofKey = (sandboxId: SandboxId) => ({ credential: credentialOf(), sandboxId });
  const recordOf = async (id: SandboxId) => (await world.server.core.sandboxes.find(id)) as SandboxRecord;
  const untilAborted = (_agent: AgentClient, _sandbox: SandboxRecord, signal: AbortSignal) =>
    new Promise<never>((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));

  it('SandboxUse waits for a sandbox that is being made, then acts on its agent', async () => {
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    const used = use.with(ofKey(id), { signal: never }, async (agent, sandbox) => [typeof agent.run, sandbox.status]);
    release();
    assert.deepEqual(await used, ['function', 'ready']);
  });

  it('SandboxUse is refused where the sandbox is not ready in time', async () => {
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    await assert.rejects(use.ready(ofKey(id), { signal: never, readyMs: 1 }), {
      code: 'unavailable',
      retryAfterSeconds: 1,
    });
    release();
  });

  it('SandboxUse ends with the reason of its signal while it waits', async () => {
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    const leaving = new AbortController();
    const used = use.with(ofKey(id), { signal: leaving.signal }, async () => 'acted');
    const reason = new Error('the client left');
    leaving.abort(reason);
    await assert.rejects(used, reason);
    release();
  });

  it('SandboxUse does nothing without waiting where no instance is ready yet', async () => {
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    const act = async () => assert.fail('acted');
    assert.equal(await use.ifReady(await recordOf(id), { actMs: 1_000 }, act), undefined);
    release();
  });

  it('SandboxUse refuses a sandbox that the key may not see, and one that has ended', async () => {
    const id = await world.createReady();
    const act = async () => assert.fail('acted');
    const foreign = { credential: credentialOf('org_2' as OrgId), sandboxId: id };
    await assert.rejects(use.with(foreign, { signal: never }, act), { code: 'not_found' });
    await world.kill(id);
    await assert.rejects(use.with(ofKey(id), { signal: never }, act), { code: 'sandbox_destroyed' });
  });

  it('SandboxUse ends an act that takes longer than its limit', async () => {
    const id = await world.createReady();
    await assert.rejects(use.with(ofKey(id), { signal: never, actMs: 1 }, untilAborted), {
      code: 'unavailable',
      retryAfterSeconds: 1,
    });
  });

  it('SandboxUse throws the reason of its signal when it aborts before the act ends', async () => {
    const id = await world.createReady();
    const leaving = new AbortController();
    const used = use.act(await recordOf(id), { signal: leaving.signal, actMs: 60_000 }, untilAborted);
    const reason = new Error('the client left');
    leaving.abort(reason);
    await assert.rejects(used, reason);
  });

  it('SandboxUse does not act for a request whose server has lost its lease while it announced the act', async () => {
    const target = ofKey(await world.createReady());
    const { signal } = world.context({}).call;
    const announce = async () => {
      world.isFenced = true;
    };
    const act = async () => assert.fail('acted');
    await assert.rejects(use.with(target, { signal, announce }, act), CutOffError);
    world.isFenced = false;
    assert.equal(
      await use.with(target, { signal: never, announce: async () => undefined }, async () => 'acted'),
      'acted',
    );
  });

  it("translates the agent's faults and leaves an AppError as it is", async () => {
    const record = await recordOf(await world.createReady());
    const fail = (error: Error) =>
      use.act(record, { signal: never }, async () => {
        throw error;
      });
    await assert.rejects(fail(new AgentError('busy', 'full')), { code: 'unavailable' });
    const own = new AppError('conflict', 'explained by the act');
    await assert.rejects(fail(own), own);
  });

  it('tells that the sandbox has ended when its agent is gone', async () => {
    const id = await world.createReady();
    const act = async () => {
      world.driver.lose(id);
      throw new AgentError('gone', 'the connection broke');
    };
    await assert.rejects(use.with(ofKey(id), { signal: never }, act), { code: 'sandbox_destroyed' });
  });

  it('SandboxUse gives a connected agent without a promise', async () => {
    const record = await recordOf(await world.createReady());
    await use.act(record, { signal: never }, async () => undefined);
    assert.ok(!(use.connect(record, never) instanceof Promise));
  });
});
