/** Which of several servers of one database launches a sandbox. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { repositoryOf } from '../../../../testing/sandbox-repository.ts';
import { openSandboxes } from '../../../../testing/sandboxes.ts';

describe('a launch, with two servers', () => {
  it('a launch, with two servers, is left to the server that accepted the creation, however slow it is', async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    const release = a.driver.holdLaunches();
    const { id } = await a.create();
    a.driver.launchGate = undefined;
    for (let pass = 0; pass < 5; pass += 1) {
      await b.server.reconcile();
      await a.server.reconcile();
    }
    release();
    await a.waitFor(id, 'ready');
    const generations = a.driver.launches.map(({ generation }) => generation);
    assert.deepEqual(generations, [1]);
    assert.deepEqual(
      a.driver.instances().map(({ sandboxId, generation }) => ({ sandboxId, generation })),
      [{ sandboxId: id, generation: 1 }],
    );
  });

  it('a launch, with two servers, is taken over when its server no longer lives, which changes nothing afterwards', async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    const release = a.driver.holdLaunches();
    const { id } = await a.create();
    a.driver.launchGate = undefined;
    await a.loseLease();
    await b.server.reconcile();
    await b.waitFor(id, 'ready');
    // The first server goes on, as after SIGCONT.
    release();
    await a.until(async () => a.driver.instances().length === 1 && a.driver.launches.length === 2);
    await a.server.stop();
    assert.deepEqual(
      a.driver.instances().map(({ sandboxId, generation }) => ({ sandboxId, generation })),
      [{ sandboxId: id, generation: 2 }],
    );
    assert.equal((await b.get(id)).status, 'ready');
  });

  it('a launch, with two servers, is taken over without the instance that its server could not write down', async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    const { sandboxes } = a.server.core;
    const transition = sandboxes.transition.bind(sandboxes);
    const standstill = Promise.withResolvers<undefined>();
    sandboxes.transition = () => standstill.promise;
    const { id } = await a.create();
    await a.until(() => a.driver.instances().length === 1);
    await a.loseLease();
    // As if the instances had been listed a moment before the launch.
    a.driver.list = async () => [{ place: 'host', instances: [] }];
    await b.server.reconcile();
    await b.waitFor(id, 'ready');
    await b.until(() => a.driver.instances().every(({ generation }) => generation === 2));
    sandboxes.transition = transition;
    standstill.resolve(undefined);
  });

  it('a launch, with two servers, is handed over by a server that stops', async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    a.driver.holdLaunches();
    const { id } = await a.create();
    a.driver.launchGate = undefined;
    await a.server.stop();
    await b.server.reconcile();
    assert.equal((await b.waitFor(id, 'ready')).status, 'ready');
    assert.equal((await repositoryOf(b).find(id))?.launchOwner, 'srv_2');
  });

  it('a launch, with two servers, is taken over once by a server whose jobs look at the same moment', async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    const release = a.driver.holdLaunches();
    const { id } = await a.create();
    const goOn = Promise.withResolvers<void>();
    const others = b.liveServers.others.bind(b.liveServers);
    let looks = 0;
    b.liveServers.others = async () => {
      looks += 1;
      await goOn.promise;
      return others();
    };
    await a.loseLease();
    const passes = [b.server.reconcile(), b.server.reconcile()];
    await b.until(() => looks >= 2 || a.driver.launches.length > 1);
    goOn.resolve();
    await Promise.all(passes);
    // The launch is still under way.
    await b.server.reconcile();
    release();
    await b.waitFor(id, 'ready');
    const generations = a.driver.launches.map(({ generation }) => generation);
    assert.deepEqual(generations, [1, 2]);
  });

  it('a launch, with two servers, stays with the server that has taken it over when the first one, which was paused, gives up its launches', async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    const release = a.driver.holdLaunches();
    const { id } = await a.create();
    await a.loseLease();
    await b.server.reconcile();
    await b.until(async () => (await repositoryOf(b).find(id))?.launchOwner === 'srv_2');
    await repositoryOf(a).releaseLaunches('srv_1');
    assert.equal((await repositoryOf(b).find(id))?.launchOwner, 'srv_2');
    release();
    await b.waitFor(id, 'ready');
  });

  it('a launch, with two servers, is taken over by one of many servers that look at once', async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    await using c = await a.beside('srv_3');
    a.driver.holdLaunches();
    const created = await Promise.all(Array.from({ length: 10 }, () => a.create()));
    a.driver.launchGate = undefined;
    await a.loseLease();
    await Promise.all([b, c, b, c].map(({ server }) => server.reconcile()));
    for (const { id } of created) await b.until(async () => (await b.get(id)).status === 'ready');
    const second = a.driver.launches.filter(({ generation }) => generation === 2);
    assert.equal(new Set(second.map(({ sandboxId }) => sandboxId)).size, 10);
    assert.equal(a.driver.launches.length, 20);
  });
});
