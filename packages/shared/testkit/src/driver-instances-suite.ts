import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Instance, InstanceUse, LaunchSpec, RuntimeDriver } from '@cloche/runtime';

const PATIENCE_MS = 60_000;

/** A driver and an instance that it has launched: generation 1 of the sandbox of the suite. */
interface OpenedDriver {
  readonly driver: RuntimeDriver;
  readonly spec: LaunchSpec;
  readonly instance: Instance;
}

/** Declares the tests of instances and versions that every driver must pass. They run no code. */
export function declareInstanceTests(sandboxId: string, opened: () => OpenedDriver): void {
  const patience = () => AbortSignal.timeout(PATIENCE_MS);

  it('removes a captured version, but not one that was made again since it was listed', async () => {
    const { driver, spec } = opened();
    const { versions } = driver;
    if (!versions) return;
    const manifest = { languages: [], env: { SUITE: sandboxId } };
    const request = { from: spec.source.templateVersionId, purpose: 'version', manifest } as const;
    const derive = async () => {
      const { id } = await versions.deriveVersion(request, patience());
      const version = (await versions.capturedVersionRefs()).find((made) => made.id === id);
      assert.ok(version);
      return version;
    };
    const first = await derive();
    const second = await derive();
    assert.equal(second.id, first.id);
    await assert.rejects(versions.removeVersion(first), { kind: 'in_use' });
    await versions.removeVersion(second);
    await versions.removeVersion(second);
    assert.ok(!(await versions.capturedVersionRefs()).some(({ id }) => id === first.id));
  });

  it('names the template versions that it launches from', async () => {
    const { driver, spec } = opened();
    const ids = (await driver.templateVersions()).map(({ id }) => id);
    assert.ok(ids.includes(spec.source.templateVersionId));
  });

  it('lists what it launched, with the generation', async () => {
    const { driver } = opened();
    const listed = await listLive(driver);
    assert.ok(listed.some((one) => one.sandboxId === sandboxId && one.generation === 1));
  });

  it('finds an instance that lives, and no other', async () => {
    const { driver, instance } = opened();
    assert.deepEqual(await driver.find(instance, patience()), instance);
    assert.equal(await driver.find({ ...instance, generation: 2 }, patience()), undefined);
    assert.equal(await driver.find({ ...instance, sandboxId: `${sandboxId}x` }, patience()), undefined);
  });

  it('gives the same instance when it is asked to launch it again', async () => {
    const { driver, spec, instance } = opened();
    const again = await driver.launch(sandboxId, 1, spec, patience());
    assert.deepEqual(again.instance, instance);
  });

  it('refuses a template version that it does not have', async () => {
    const { driver, spec } = opened();
    const source = { kind: 'template', templateVersionId: 'tplv_none' } as const;
    const other = { ...spec, source };
    await assert.rejects(driver.launch(`${sandboxId}b`, 1, other, patience()), { kind: 'template_not_found' });
  });

  it('refuses a network mode that it cannot enforce and launches nothing', async () => {
    const { driver, spec } = opened();
    const modes = ['unrestricted', 'deny-all', 'allowlist', 'denylist'] as const;
    const unsupported = modes.find((mode) => !driver.isolation?.networkModes.includes(mode));
    if (!unsupported) return;
    const other = { ...spec, network: { mode: unsupported, hosts: ['example.com'] } };
    await assert.rejects(driver.launch(`${sandboxId}c`, 1, other, patience()), { kind: 'unsupported' });
    assert.ok(!(await listLive(driver)).some((one) => one.sandboxId === `${sandboxId}c`));
  });

  it('leaves nothing behind when a launch is aborted', async () => {
    const { driver, spec } = opened();
    const abort = new AbortController();
    const launch = driver.launch(`${sandboxId}d`, 1, spec, abort.signal);
    abort.abort();
    await assert.rejects(launch);
    await driver.stop(`${sandboxId}d`, 1);
    assert.ok(!(await listLive(driver)).some((one) => one.sandboxId === `${sandboxId}d`));
  });

  it('treats stopping what is not there as done', async () => {
    const { driver } = opened();
    assert.equal(await driver.stop(`${sandboxId}e`, 7), undefined);
  });

  it('counts what an instance uses, up to its end', async () => {
    const { driver, spec } = opened();
    const { metering } = driver;
    if (!metering) return;
    await driver.launch(`${sandboxId}h`, 3, spec, patience());
    const isIt = (use: InstanceUse) => use.sandboxId === `${sandboxId}h` && use.generation === 3;
    const use = (await metering.uses()).find(isIt);
    const final = await driver.stop(`${sandboxId}h`, 3);
    assert.ok(use && final && isIt(final));
    for (const counter of ['cpuMs', 'egressBytes', 'ingressBytes'] as const) {
      assert.ok(use[counter] >= 0 && final[counter] >= use[counter], counter);
    }
    assert.ok(!(await metering.uses()).some(isIt));
  });

  it('measures live instances, and leaves out those that have ended', async () => {
    const { driver, instance } = opened();
    const { metering } = driver;
    if (!metering) return;
    const other = { sandboxId: `${sandboxId}i`, generation: 1 };
    const [measured, ...more] = await metering.measure([instance, other], patience());
    assert.deepEqual(more, []);
    assert.ok(measured && measured.sandboxId === sandboxId && measured.generation === 1);
    const { measurement, diskLimitBytes, inodesLimit } = measured;
    assert.ok(measurement.memoryBytes > 0 && measurement.cpu >= 0);
    assert.ok(diskLimitBytes && measurement.diskBytes !== undefined && measurement.diskBytes < diskLimitBytes);
    assert.ok(inodesLimit && measurement.inodes !== undefined && measurement.inodes < inodesLimit);
    assert.deepEqual(await metering.history(other, 0, patience()), { samples: [] });
    assert.equal((await metering.history(instance, 0, patience())).now?.sandboxId, sandboxId);
    assert.deepEqual((await metering.history(instance, Date.now() + 60_000, patience())).samples, []);
  });
}

/** Returns the live instances of all places, which must answer. */
export async function listLive(driver: RuntimeDriver): Promise<Instance[]> {
  return (await driver.list()).flatMap((listing) => {
    if ('unknown' in listing) throw listing.unknown;
    return listing.instances;
  });
}
