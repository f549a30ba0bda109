import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { describeDifference, describeGrowth, type HostFootprint } from '../e2e/support/host-footprint.ts';
import { isOfThisRun, newInstallationId } from '../packages/shared/testkit/src/installation-ids.ts';

const EMPTY: HostFootprint = {
  processes: new Map(),
  mounts: new Map(),
  cgroups: new Map(),
  loopDevices: new Map(),
  interfaces: new Map(),
  tables: new Map(),
  slots: new Map(),
};

/** Returns one thing of each kind that belongs to the installation. */
function traces(id: string, pid: number): HostFootprint {
  return {
    processes: new Map([[`${pid} hostd`, id]]),
    mounts: new Map([[`/opt/cloche of ${id}`, id]]),
    cgroups: new Map([[`/sys/fs/cgroup/cpu/cloche-${id}/`, id]]),
    loopDevices: new Map([[`/dev/loop${pid}: (/tmp/disk)`, id]]),
    interfaces: new Map([[`cl${id}7`, id]]),
    tables: new Map([[`table inet cloche_${id}`, id]]),
    slots: new Map([[String(pid), id]]),
  };
}

function together(...footprints: HostFootprint[]): HostFootprint {
  const all = (kind: keyof HostFootprint) => new Map(footprints.flatMap((footprint) => [...footprint[kind]]));
  const kinds = Object.keys(EMPTY) as (keyof HostFootprint)[];
  return Object.fromEntries(kinds.map((kind) => [kind, all(kind)])) as unknown as HostFootprint;
}

describe('the check of what tests leave on the host', () => {
  const ours = newInstallationId();

  it('the check of what tests leave on the host names each thing of an installation that the tests started', () => {
    const left = describeDifference(EMPTY, traces(ours, 3), isOfThisRun);
    assert.equal(left.length, 7);
    assert.ok(left.includes(`tables: table inet cloche_${ours} (installation ${ours})`));
  });

  it('the check of what tests leave on the host passes over installations that others started, before or meanwhile', () => {
    const before = traces('before00', 1);
    const after = together(traces('before00', 2), traces('during00', 3));
    assert.deepEqual(describeDifference(before, after, isOfThisRun), []);
  });

  it('the check of what tests leave on the host tells two installations apart', () => {
    const after = together(traces('during00', 3), { ...EMPTY, slots: new Map([['9', ours]]) });
    assert.deepEqual(describeDifference(EMPTY, after, isOfThisRun), [`slots: 9 (installation ${ours})`]);
  });

  it('the check of what tests leave on the host names a slot that another installation had before', () => {
    const before = { ...EMPTY, slots: new Map([['9', 'before00']]) };
    assert.equal(describeDifference(before, { ...EMPTY, slots: new Map([['9', ours]]) }, isOfThisRun).length, 1);
  });

  it('the check of what tests leave on the host names what belongs to no known installation', () => {
    const after = { ...EMPTY, mounts: new Map([['/tmp/cloche-x', undefined]]) };
    assert.deepEqual(describeDifference(EMPTY, after, isOfThisRun), ['mounts: /tmp/cloche-x']);
    assert.deepEqual(describeDifference(after, after, isOfThisRun), []);
  });

  it('the check of what one installation leaves on the host leaves out its processes and what others have', () => {
    const growth = describeGrowth(EMPTY, together(traces(ours, 3), traces('during00', 4)), ours);
    assert.equal(growth.length, 6);
  });
});
