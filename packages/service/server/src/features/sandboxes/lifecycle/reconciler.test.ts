import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { onAbort } from '@cloche/node-support';
import { AgentError, type RuntimeDriver } from '@cloche/runtime';
import { repositoryOf } from '../../../../testing/sandbox-repository.ts';
import { openSandboxes } from '../../../../testing/sandboxes.ts';
import { SILENT } from '../../../../testing/silent.ts';
import { Reconciler } from './reconciler.ts';

type Connect = RuntimeDriver['connect'];

/** Never answers, as over a network that carries nothing. */
const silent: Connect = (_, signal) =>
  new Promise((_resolve, reject) => void onAbort(signal, () => reject(signal.reason)));
const gone: Connect = () => Promise.reject(new AgentError('gone', 'its place says that it does not live'));

/** Returns whether a server that cannot connect ends the sandbox, although its instance lives. */
async function ends(connect: Connect, endsSilentSandboxes: boolean): Promise<boolean> {
  await using world = await openSandboxes();
  const id = await world.createReady();
  const ended: string[] = [];
  const sandboxes = repositoryOf(world);
  const reconciler = new Reconciler({
    sandboxes,
    driver: Object.assign(world.driver, { connect }),
    abandonedLaunches: { takeOverOf: async () => undefined },
    pauseMoves: {
      settleOf: async () => undefined,
      thawStray: async () => undefined,
      freezeStray: async () => undefined,
      lose: async () => false,
    },
    destroySandbox: {
      destroy: async (_, sandboxId) => {
        ended.push(sandboxId);
        return (await sandboxes.find(sandboxId)) ?? assert.fail();
      },
    },
    forgetEnded: { begin: () => () => undefined },
    log: SILENT,
    endsSilentSandboxes,
    probeMs: 20,
  });
  await reconciler.check(id);
  return ended.length > 0;
}

describe('a server that did not end a sandbox itself', () => {
  it('a server that did not end a sandbox itself drops the client of its agent and its activity in the next pass, and keeps those of others', async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    const [ended, kept] = [await a.createReady(), await a.createReady()];
    const closed: string[] = [];
    const { connect } = a.driver;
    a.driver.connect = async (instance, ...more) => {
      const client = await connect.call(a.driver, instance, ...more);
      const close = client.close.bind(client);
      return Object.assign(client, {
        close: () => {
          closed.push(instance.sandboxId);
          return close();
        },
      });
    };
    for (const id of [ended, kept]) await b.run(id, 'print x');
    await a.kill(ended);
    const { executions } = b.server.core;
    assert.deepEqual([closed, executions.known()], [[], [ended, kept]]);
    await b.server.reconcile();
    assert.deepEqual([closed, executions.known()], [[ended], [kept]]);
  });
});

describe('a server whose connection to an agent broke', () => {
  it('a server whose connection to an agent broke does not end a sandbox whose agent says nothing to it, because other servers may reach it', async () => {
    assert.equal(await ends(silent, false), false);
  });

  it('a server whose connection to an agent broke ends it if there is no other server', async () => {
    assert.equal(await ends(silent, true), true);
  });

  it('a server whose connection to an agent broke ends a sandbox whose place says meanwhile that the instance does not live', async () => {
    assert.equal(await ends(gone, false), true);
  });
});

describe('a server that was paused', () => {
  it('a server that was paused counts what a sandbox used when another one has recorded its end', async () => {
    await using world = await openSandboxes();
    await using other = await world.beside('srv_2');
    const id = await world.createReady();
    const used = { cpuMs: 5_000, egressBytes: 1_000_000 };
    const [stopped, goesOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const stop = world.driver.stop.bind(world.driver);
    world.driver.stop = async (sandboxId, generation) => {
      world.driver.stop = stop;
      const use = await stop(sandboxId, generation);
      stopped.resolve();
      await goesOn.promise;
      return use && { ...use, ...used };
    };
    const killing = world.kill(id);
    await stopped.promise;
    await other.kill(id);
    goesOn.resolve();
    await killing;
    const query = world.db.selectFrom('sandbox_usage').select(['cpu_ms', 'egress_bytes']).where('sandbox_id', '=', id);
    const counted = await query.executeTakeFirst();
    assert.deepEqual([counted?.cpu_ms, counted?.egress_bytes], [used.cpuMs, used.egressBytes]);
  });
});
