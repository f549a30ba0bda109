import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { type CgroupHierarchy, findHierarchies } from './cgroup-hierarchies.ts';
import { Freezer } from './freezer.ts';

const isRoot = process.getuid?.() === 0;
const mounted = findHierarchies();
const version1 = mounted.find(({ controllers }) => controllers.includes('freezer'));
const version2 = mounted.find(({ version }) => version === 2);

/** Starts a process that computes in a group below that of an instance. */
function computeIn({ mountPoint }: CgroupHierarchy, parent: string, key: string) {
  const below = join(mountPoint, parent, key, 'below');
  mkdirSync(below, { recursive: true });
  const child: ChildProcess = spawn('/bin/sh', ['-c', 'while :; do :; done']);
  writeFileSync(join(below, 'cgroup.procs'), String(child.pid));
  return {
    below,
    ticks: () => Number(readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[11]),
    async [Symbol.asyncDispose]() {
      const exited = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await exited;
      for (const folder of [below, join(mountPoint, parent, key), join(mountPoint, parent)]) {
        await eventually(() => removed(folder), { because: `${folder} is empty` });
      }
    },
  };
}

function removed(folder: string): boolean {
  try {
    rmdirSync(folder);
  } catch {
    return !existsSync(folder);
  }
  return true;
}

describe('a freezer', () => {
  for (const [version, hierarchy] of [
    ['1', version1],
    ['2', version2],
  ] as const) {
    test(`a freezer stops the groups below one of version ${version}, says so, and lets all of them go on`, {
      skip: !(isRoot && hierarchy) && 'this takes root, and such a hierarchy',
    }, async () => {
      assert.ok(hierarchy);
      const parent = `cloche-test-${process.pid}`;
      const freezer = new Freezer([hierarchy], parent);
      await using computing = computeIn(hierarchy, parent, 'one');
      await eventually(() => computing.ticks() > 5, { because: 'it computes' });
      assert.equal(freezer.isFrozen('one'), false);
      for (let times = 0; times < 2; times += 1) await freezer.freeze('one');
      assert.equal(freezer.isFrozen('one'), true);
      const ticks = computing.ticks();
      await new Promise((resolve) => setTimeout(resolve, 200));
      assert.equal(computing.ticks(), ticks);
      // A group below that was frozen by itself goes on too.
      const own = join(computing.below, version === '1' ? 'freezer.state' : 'cgroup.freeze');
      writeFileSync(own, version === '1' ? 'FROZEN' : '1');
      for (let times = 0; times < 2; times += 1) freezer.thaw('one');
      assert.equal(freezer.isFrozen('one'), false);
      await eventually(() => computing.ticks() > ticks + 5, { because: 'it computes again' });
    });
  }

  test('a freezer gives up after a second, and thaws the group', async () => {
    const mountPoint = mkdtempSync(join(tmpdir(), 'cloche-freezer-'));
    try {
      const group = join(mountPoint, 'parent', 'one');
      mkdirSync(join(group, 'below'), { recursive: true });
      // Takes what is written and never reports a frozen group, as while a process cannot be stopped.
      symlinkSync('/dev/null', join(group, 'freezer.state'));
      writeFileSync(join(group, 'below', 'freezer.state'), 'FROZEN');
      const freezer = new Freezer([{ mountPoint, version: 1, controllers: ['freezer'] }], 'parent');
      const begun = performance.now();
      await assert.rejects(freezer.freeze('one'), { name: 'HostdError', code: 'freeze_failed' });
      assert.ok(performance.now() - begun >= 1000);
      assert.equal(readFileSync(join(group, 'below', 'freezer.state'), 'utf8'), 'THAWED');
    } finally {
      rmSync(mountPoint, { recursive: true });
    }
  });

  test('a freezer of a host without one refuses, and a group that is gone is not frozen', async () => {
    const none = new Freezer([{ mountPoint: '/nowhere', version: 1, controllers: ['memory'] }], 'parent');
    assert.equal(none.isAvailable, false);
    await assert.rejects(none.freeze('one'), { code: 'freeze_failed' });
    none.thaw('one');
    const gone = new Freezer([{ mountPoint: '/nowhere', version: 1, controllers: ['freezer'] }], 'parent');
    assert.equal(gone.isAvailable, true);
    await assert.rejects(gone.freeze('one'), { code: 'freeze_failed' });
    gone.thaw('one');
    assert.equal(gone.isFrozen('one'), false);
  });
});
