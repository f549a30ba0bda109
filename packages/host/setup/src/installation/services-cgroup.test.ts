import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { needsRoot } from '@cloche/testkit/needs-root';
import { findProcessorHierarchy, ServicesCgroup } from './services-cgroup.ts';

const V1 = '30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct';
const V2 = '31 25 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate';

describe('the cgroup of the parts', () => {
  it('the cgroup of the parts is in the hierarchy that has the cpu controller', () => {
    assert.deepEqual(findProcessorHierarchy(`${V2}\n${V1}`), {
      mountPoint: '/sys/fs/cgroup/cpu,cpuacct',
      type: 'cgroup',
    });
    assert.deepEqual(findProcessorHierarchy(V2), { mountPoint: '/sys/fs/cgroup/unified', type: 'cgroup2' });
    assert.equal(findProcessorHierarchy(''), undefined);
  });

  it('the cgroup of the parts holds a process and what it starts, and is removed when they have ended', {
    skip: needsRoot,
  }, async () => {
    const id = `test${process.pid}`;
    const group = new ServicesCgroup(id);
    const child = spawn('sh', ['-c', 'read _; sleep 60 & echo $!; wait']);
    const ended = once(child, 'exit');
    group.join(child.pid ?? assert.fail('no process'));
    child.stdin.write('\n');
    const [grandchild] = await once(child.stdout, 'data');
    const { mountPoint = '' } = findProcessorHierarchy(readFileSync('/proc/self/mountinfo', 'utf8')) ?? {};
    const folder = join(mountPoint, `cloche-${id}-parts`);
    const members = readFileSync(join(folder, 'cgroup.procs'), 'utf8').trim().split('\n').map(Number);
    assert.deepEqual(members.sort(), [child.pid, Number(grandchild)].sort());
    process.kill(Number(grandchild), 'SIGKILL');
    child.kill('SIGKILL');
    await ended;
    await group.remove();
    assert.equal(existsSync(folder), false);
    await group.remove();
  });

  it('the cgroup of the parts is left alone by a process that has ended already', async () => {
    const group = new ServicesCgroup(`test${process.pid}`);
    const child = spawn('true');
    await once(child, 'exit');
    group.join(child.pid ?? assert.fail('no process'));
    await group.remove();
  });
});
