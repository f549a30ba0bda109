import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { findHierarchies, ownGroupIn } from './cgroup-hierarchies.ts';
import { CgroupMoves } from './cgroup-moves.ts';
import { dividedHierarchies } from './divided-group.ts';

const V1 = { place: '/sys/fs/cgroup/cpu', version: 1, controllers: ['rw', 'cpu', 'cpuacct'] } as const;
const V2 = { place: '/sys/fs/cgroup', version: 2, controllers: [] } as const;

test('the group of a process is found in either version', () => {
  assert.equal(ownGroupIn(V1, '4:memory:/m\n3:cpu,cpuacct:/some/one\n0::/x\n'), '/sys/fs/cgroup/cpu/some/one');
  assert.equal(ownGroupIn(V1, '4:memory:/m\n0::/x\n'), undefined);
  assert.equal(ownGroupIn(V2, '0::/system.slice/a:b.service\n'), '/sys/fs/cgroup/system.slice/a:b.service');
});

test('expecting moves moves nobody, however many expect them', async () => {
  const child = spawn('sleep', ['60']);
  const groups = () => [process.pid, child.pid].map((pid) => readFileSync(`/proc/${pid}/cgroup`, 'utf8'));
  const before = groups();
  const hierarchies = dividedHierarchies(findHierarchies());
  const moves = new CgroupMoves(hierarchies);
  const one = moves.expect();
  assert.equal(moves.expect(), one);
  await one;
  assert.notEqual(moves.expect(), one);
  await moves.expect();
  assert.deepEqual(groups(), before);
  child.kill();
  await once(child, 'exit');
});

test('what cannot be expected is left', async () => {
  await new CgroupMoves([]).expect();
  await new CgroupMoves([{ place: '/nonexistent', version: 2, controllers: [] }]).expect();
});
