import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { onAbort } from '@cloche/node-support';
import { openSandboxes, repositoryOf, SILENT } from '../../../testing/sandboxes.ts';
import { AgentError, type RuntimeDriver } from '../../driver/runtime-driver.ts';
import { Reconciler } from './reconciler.ts';

type Connect = RuntimeDriver['connect'];

/** Never answers, as over a network that carries nothing. */
const silent: Connect = (_, signal) =>
  new Promise((_resolve, reject) => void onAbort(signal, () => reject(signal.reason)));
const gone: Connect = () => Promise.reject(new AgentError('gone', 'its place says that it does not live'));

/** Returns whether a server that cannot connect ends the sandbox, although its instance lives. */
async function ends(connect: Connect, isAlone: boolean): Promise<boolean> {
  await using world = await openSandboxes();
  const id = await world.createReady();
  const ended: string[] = [];
  const sandboxes = repositoryOf(world);
  const reconciler = new Reconciler({
    sandboxes,
    driver: Object.assign(world.driver, { connect }),
    abandonedLaunches: { takeOverOf: async () => undefined },
    destroySandbox: {
      destroy: async (sandboxId) => {
        ended.push(sandboxId);
        return (await sandboxes.find(sandboxId)) ?? assert.fail();
      },
    },
    log: SILENT,
    isAlone,
    probeMs: 20,
  });
  await reconciler.check(id);
  return ended.length > 0;
}

describe('a server whose connection to an agent broke', () => {
  it('does not end a sandbox whose agent says nothing to it, because other servers may reach it', async () => {
    assert.equal(await ends(silent, false), false);
  });

  it('ends it if there is no other server', async () => {
    assert.equal(await ends(silent, true), true);
  });

  it('ends a sandbox whose place says meanwhile that the instance does not live', async () => {
    assert.equal(await ends(gone, false), true);
  });
});
