import assert from 'node:assert/strict';
import { it } from 'node:test';
import {
  type AgentClient,
  AgentError,
  type LaunchSpec,
  type Parking,
  ParkingError,
  type RuntimeDriver,
} from '@cloche/runtime';
import { listLive } from './driver-instances-suite.ts';
import { FilesSession, patience } from './files-session.ts';

/** Declares the tests of disks that outlive their instances. They do nothing for a driver that keeps none. */
export function declareParkingTests(
  sandboxId: string,
  opened: () => { readonly driver: RuntimeDriver; readonly spec: LaunchSpec },
): void {
  const name = (generation: number) => ({ sandboxId, generation });
  /** Launches a generation, from the disk of another one if that is given, and lets `act` use its files. */
  async function within(generation: number, from: number | undefined, act: (files: FilesSession) => Promise<unknown>) {
    const { driver, spec } = opened();
    const source = from === undefined ? spec.source : ({ ...spec.source, kind: 'parked', generation: from } as const);
    const { instance } = await driver.launch(sandboxId, generation, { ...spec, source }, patience());
    const agent: AgentClient = await driver.connect(instance, patience());
    await act(new FilesSession(() => agent.files));
    await agent.close();
  }
  const parkingTest = (title: string, act: (parking: Parking, driver: RuntimeDriver) => Promise<void>) =>
    it(title, async () => {
      const { driver } = opened();
      const { parking } = driver;
      if (parking) await act(parking, driver);
    });
  const ours = async (parking: Parking) =>
    (await parking.parked(patience())).filter((disk) => disk.sandboxId === sandboxId);
  const refusal = (kind: ParkingError['kind']) => (error: unknown) =>
    error instanceof ParkingError && error.kind === kind;
  const isGone = (error: unknown) => error instanceof AgentError && error.kind === 'gone';

  parkingTest('keeps the files of an instance that is parked for each later generation', async (parking, driver) => {
    await within(1, undefined, (files) => files.put('kept', 'one'));
    const { disk, use } = await parking.park(name(1), patience());
    assert.ok(use && use.sandboxId === sandboxId && use.cpuMs >= 0);
    assert.deepEqual([disk.sandboxId, disk.generation], [sandboxId, 1]);
    assert.ok(disk.bytes > 0 && disk.bytes <= disk.diskBytes && disk.diskBytes === opened().spec.resources.diskBytes);
    assert.ok(!(await listLive(driver)).some((one) => one.sandboxId === sandboxId));
    assert.deepEqual(await parking.park(name(1), patience()), { disk }, 'once more');
    assert.deepEqual(await ours(parking), [disk]);
    await within(2, 1, async (files) => {
      assert.equal(await files.content('kept'), 'one');
      await files.put('kept', 'two');
    });
    await parking.park(name(2), patience());
    assert.deepEqual(
      (await ours(parking)).map(({ generation }) => generation),
      [2],
      'one disk, under its latest name',
    );
    await within(3, 2, async (files) => assert.equal(await files.content('kept'), 'two'));
    await driver.stop(sandboxId, 3);
    await parking.removeParked(name(2), patience());
    await parking.removeParked(name(2), patience());
    assert.deepEqual(await ours(parking), []);
  });

  parkingTest(
    'keeps the files of an instance that goes on, and gives them to no other meanwhile',
    async (parking, driver) => {
      const parkedAs1 = {
        ...opened().spec,
        source: { ...opened().spec.source, kind: 'parked', generation: 1 },
      } as const;
      await within(1, undefined, (files) => files.put('kept', 'one'));
      await parking.keep(name(1), patience());
      await assert.rejects(driver.launch(sandboxId, 2, parkedAs1, patience()), refusal('in_use'));
      // The name goes, and the disk can be kept again.
      await parking.removeParked(name(1), patience());
      await parking.keep(name(1), patience());
      await driver.stop(sandboxId, 1);
      await within(2, 1, async (files) => assert.equal(await files.content('kept'), 'one'));
      await driver.stop(sandboxId, 2);
      await parking.removeParked(name(1), patience());
      await assert.rejects(driver.launch(sandboxId, 3, parkedAs1, patience()), refusal('not_found'));
    },
  );

  parkingTest(
    'refuses to keep the disk of what is not there, or to give it to an earlier generation',
    async (parking, driver) => {
      await assert.rejects(parking.park(name(7), patience()), isGone);
      await assert.rejects(parking.keep(name(7), patience()), isGone);
      await within(1, undefined, (files) => files.put('kept', 'one'));
      await parking.park(name(1), patience());
      const { spec } = opened();
      const source = { ...spec.source, kind: 'parked', generation: 1 } as const;
      await assert.rejects(driver.launch(sandboxId, 1, { ...spec, source }, patience()), {
        name: 'LaunchError',
        kind: 'failed',
      });
      const resources = { ...spec.resources, diskBytes: spec.resources.diskBytes * 2 };
      await assert.rejects(driver.launch(sandboxId, 2, { ...spec, source, resources }, patience()), {
        name: 'LaunchError',
      });
      await parking.removeParked(name(1), patience());
    },
  );
}
