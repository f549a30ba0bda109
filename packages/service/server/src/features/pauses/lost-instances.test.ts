/** Sandboxes whose host has lost their instances, and the disks that hosts keep. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations } from '@cloche/contract';
import { LaunchError, ParkingError } from '@cloche/runtime';
import { isFrozen, openPauses, pause, pauseEvents, resume } from '../../../testing/pauses.ts';
import type { SandboxesWorld } from '../../../testing/sandboxes.ts';

const DROP = { memory: 'drop' } as const;
const keptOf = async ({ driver }: SandboxesWorld) =>
  (await driver.kept.parked()).map(({ sandboxId, generation }) => `${sandboxId}/${generation}`);
/** The pass of the sweep that every minute makes. */
const sweep = async (world: SandboxesWorld) => world.server.diskSweep.pass();

describe('a pause that keeps memory', () => {
  it('a pause that keeps memory has made the files safe before its record says so', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const { kept } = world.driver;
    const keep = kept.keep.bind(kept);
    const seen: unknown[] = [];
    kept.keep = async (name) => {
      seen.push((await world.get(id)).paused, isFrozen(world, id));
      return keep(name);
    };
    await pause(world, id);
    assert.deepEqual([seen, await keptOf(world)], [[undefined, true], [`${id}/1`]]);
    await world.run(id, 'print x');
    await world.kill(id);
    assert.deepEqual(await keptOf(world), []);
  });

  it('a pause that keeps memory is given up if the files cannot be made safe, but not where no host keeps disks', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const { kept } = world.driver;
    const refused = (error: Error) => async () => {
      throw error;
    };
    kept.keep = refused(new LaunchError('failed', 'the disk is full'));
    await assert.rejects(pause(world, id), { code: 'unavailable' });
    assert.deepEqual([(await world.get(id)).paused, isFrozen(world, id)], [undefined, false]);
    kept.keep = refused(new ParkingError('unsupported', 'launched by an earlier release'));
    assert.equal((await pause(world, id)).paused?.memory, 'kept');
    await resume(world, id);
    world.driver.parking = undefined;
    assert.equal((await pause(world, id)).paused?.memory, 'kept');
  });
});

describe('a sandbox whose instance is lost with its host', () => {
  it('a sandbox whose instance is lost with its host is paused with its files, if it was paused or outlives its host', async () => {
    await using world = await openPauses();
    const paused = await world.createReady();
    const named = await world.createReady({ name: 'box' });
    const other = await world.createReady();
    const before = await pause(world, paused);
    await world.server.diskSweep.keepAll();
    assert.deepEqual((await keptOf(world)).toSorted(), [`${named}/1`, `${paused}/1`].toSorted());
    const { id: commandId } = await world.runCommand(named, { command: ['bash', 'hang'], background: true });
    const disks = new Map([paused, named].map((id) => [id, world.driver.agentOf(id).disk]));
    for (const id of [paused, named, other]) world.driver.lose(id);
    await world.server.reconcile();
    await world.until(async () => (await world.get(other)).status === 'destroyed');
    assert.equal((await world.get(other)).destroyedReason, 'platform_cleanup');
    const lost = { by: 'host', memory: 'lost', place: 'disk', lostReason: 'host' };
    assert.deepEqual((await world.get(paused)).paused, { at: before.paused?.at, ...lost });
    assert.equal((await world.get(paused)).expiresAt, before.expiresAt);
    const { paused: now, status } = await world.get(named);
    assert.deepEqual([{ ...now, at: '' }, status], [{ at: '', ...lost }, 'idle']);
    assert.equal(
      (await world.call(operations.getCommand, { params: { sandboxId: named, commandId } })).command.status,
      'killed',
    );
    for (const [id, disk] of disks) {
      assert.equal((await resume(world, id)).resumed?.lostReason, 'host');
      assert.equal(world.driver.agentOf(id).disk, disk);
    }
    assert.deepEqual((await pauseEvents(world)).slice(1, 3).toSorted(), ['sandbox.memory_lost', 'sandbox.paused']);
  });

  it('a sandbox whose instance is lost with its host is booted by the run that finds it out', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await world.run(id, 'set a 41');
    await pause(world, id);
    world.driver.lose(id);
    const run = await world.run(id, 'get a');
    assert.deepEqual([run.error?.name, run.stateLost], ['NameError', true]);
    const { resumed } = await world.get(id);
    assert.deepEqual([resumed?.memory, resumed?.lostReason], ['lost', 'host']);
  });

  it('a sandbox whose instance is lost with its host ends if its disk was not kept', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ name: 'box' });
    await world.driver.kept.removeParked({ sandboxId: id, generation: 1 });
    world.driver.lose(id);
    await world.server.reconcile();
    assert.equal((await world.get(id)).destroyedReason, 'platform_cleanup');
  });
});

describe('the sweep of kept disks', () => {
  it('the sweep of kept disks removes a disk whose sandbox has ended, in its second pass', async () => {
    await using world = await openPauses();
    const [ended, live] = [await world.createReady(), await world.createReady()];
    for (const id of [ended, live]) await pause(world, id, DROP);
    const { kept } = world.driver;
    const remove = kept.removeParked.bind(kept);
    kept.removeParked = async () => {
      throw new LaunchError('unreachable', 'no answer');
    };
    await world.kill(ended);
    kept.removeParked = remove;
    await sweep(world);
    assert.equal((await keptOf(world)).length, 2, 'it may be a move under way');
    await sweep(world);
    assert.deepEqual(await keptOf(world), [`${live}/1`]);
  });

  it('the sweep of kept disks ends a sandbox whose files are gone, in its second pass, and no other', async () => {
    await using world = await openPauses();
    const [gone, here, frozen] = [await world.createReady(), await world.createReady(), await world.createReady()];
    for (const id of [gone, here]) await pause(world, id, DROP);
    await pause(world, frozen);
    await world.driver.kept.removeParked({ sandboxId: gone, generation: 1 });
    await sweep(world);
    assert.ok((await world.get(gone)).paused);
    await sweep(world);
    assert.equal((await world.get(gone)).destroyedReason, 'platform_cleanup');
    for (const id of [here, frozen]) assert.ok((await world.get(id)).paused);
  });

  it('the sweep of kept disks changes nothing while the host does not answer', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await pause(world, id, DROP);
    world.driver.isDown = true;
    for (let pass = 0; pass < 3; pass += 1) await assert.rejects(sweep(world));
    world.driver.isDown = false;
    assert.ok((await world.get(id)).paused);
  });
});

describe('a host without room', () => {
  const full = () => new LaunchError('no_capacity', '100 MiB of memory are lacking');

  it('a host without room gets it from the memory of paused sandboxes that prefer it, the longest paused first', async () => {
    await using world = await openPauses();
    const [kept, second, first] = [await world.createReady(), await world.createReady(), await world.createReady()];
    await pause(world, kept, { memory: 'keep' });
    await pause(world, first, { memory: 'prefer' });
    world.clock.advance(1_000);
    await pause(world, second, { memory: 'prefer' });
    const before = await world.get(first);
    world.driver.launchErrors.push(full());
    await world.createReady();
    const lost = { memory: 'lost', place: 'disk', lostReason: 'room' };
    assert.deepEqual(await world.get(first), { ...before, paused: { ...before.paused, ...lost } });
    for (const id of [kept, second]) assert.equal((await world.get(id)).paused?.memory, 'kept');
    assert.equal((await pauseEvents(world)).at(-1), 'sandbox.memory_lost');

    world.driver.launchErrors.push(full());
    assert.equal((await resume(world, first)).resumed?.lostReason, 'room');
    assert.equal((await world.get(second)).paused?.lostReason, 'room', 'a boot takes it too');
  });

  it('a host without room launches nothing once no memory is left to drop, and takes none that is to be kept', async () => {
    await using world = await openPauses();
    const [kept, preferred] = [await world.createReady(), await world.createReady()];
    await pause(world, kept);
    await pause(world, preferred, { memory: 'prefer' });
    world.driver.launchErrors.push(full(), full());
    const { id } = await world.create();
    await world.until(async () => (await world.get(id)).status === 'failed');
    assert.deepEqual([(await world.get(kept)).paused?.memory, world.driver.launchErrors], ['kept', []]);
    assert.equal((await world.get(preferred)).paused?.memory, 'lost');
  });
});
