import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import {
  checkKernel,
  checkKernelMemory,
  checkMemory,
  checkPort,
  checkRoot,
  checkServicePort,
  checkTools,
  examineHost,
  findV2Mount,
  readCgroupLayout,
} from '@cloche/host-checks';
import { GVISOR_VERSION, VERSITYGW_VERSION } from '@cloche/layout';
import { GVISOR_MODULE } from './build-runsc.ts';
import { VERSITYGW_MODULE } from './build-versitygw.ts';

const V1_MEMORY = '30 25 0:26 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory';
const V1_CPU = '31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct';
const V1_NAMED = '32 25 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd';
const V2 = '33 25 0:29 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate';

describe('the layout of cgroups', () => {
  it('the layout of cgroups is hybrid when both hierarchies hold controllers', () => {
    assert.deepEqual(readCgroupLayout([V1_MEMORY, V1_CPU, V2].join('\n'), 'pids hugetlb\n'), {
      kind: 'hybrid',
      controllers: { pids: 'v2', hugetlb: 'v2', memory: 'v1', cpu: 'v1', cpuacct: 'v1' },
    });
  });

  it('the layout of cgroups is v2 when v1 has no controller', () => {
    const layout = readCgroupLayout([V1_NAMED, V2].join('\n'), 'cpu memory pids\n');
    assert.equal(layout.kind, 'v2');
    assert.equal(layout.controllers.memory, 'v2');
  });

  it('the layout of cgroups does not exist on a host without', () => {
    assert.equal(readCgroupLayout('', '').kind, 'none');
  });

  it('the layout of cgroups knows where v2 is mounted', () => {
    assert.equal(findV2Mount([V1_MEMORY, V2].join('\n')), '/sys/fs/cgroup/unified');
  });
});

describe('checks of a host', () => {
  it('checks of a host miss what a kernel is too old for', () => {
    assert.equal(checkKernel('5.10.0-28-amd64').status, 'missing');
    assert.equal(checkKernel('6.1.0').status, 'ok');
    assert.equal(checkKernel('5.19.0').status, 'ok');
    assert.equal(checkKernel('5.18.9').status, 'missing');
  });

  it('checks of a host miss the rights of root', () => {
    assert.equal(checkRoot(0).status, 'ok');
    const { status, remedy } = checkRoot(1000);
    assert.equal(status, 'missing');
    assert.match(remedy, /as root.*`sudo`/);
  });

  it('checks of a host warn where the kernel charges none of its memory to sandboxes', () => {
    assert.equal(checkKernelMemory('quiet cgroup.memory=nosocket,nokmem ro').status, 'warning');
    assert.equal(checkKernelMemory('quiet cgroup.memory=nosocket ro').status, 'ok');
  });

  it('warn of little memory', () => {
    assert.equal(checkMemory(1024 ** 3).status, 'warning');
    // As a server of 2 GB with a reserve for crash dumps.
    assert.equal(checkMemory(1.75 * 1024 ** 3).status, 'ok');
  });

  it('warn of a port that is in use', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as AddressInfo;
    assert.equal((await checkPort('127.0.0.1', port)).status, 'warning');
    await new Promise((resolve) => server.close(resolve));
    assert.equal((await checkPort('127.0.0.1', port)).status, 'ok');
  });

  it('know Cloche itself on its port from another program', async () => {
    for (const [answer, status] of [
      ['{"status":"ok","version":"1.2.3"}', 'ok'],
      ['{"status":"ok","version":"\\u001b[2J"}', 'warning'],
      ['{"status":"ok"}', 'warning'],
      ['<html></html>', 'warning'],
    ] as const) {
      const server = createServer((request, response) => {
        response.statusCode = request.url === '/healthz' ? 200 : 404;
        response.end(answer);
      }).listen(0, '127.0.0.1');
      await new Promise((resolve) => server.once('listening', resolve));
      const { port } = server.address() as AddressInfo;
      for (const host of ['127.0.0.1', '0.0.0.0']) {
        const finding = await checkServicePort(host, port);
        assert.equal(finding.status, status, answer);
        assert.match(finding.found, status === 'ok' ? /in use by Cloche 1\.2\.3$/ : /is in use$/);
      }
      await new Promise((resolve) => server.close(resolve));
    }
  });

  it('checks of a host tell a tool that can be installed from one that is there and broken', async () => {
    const [absent, broken, optional] = await checkTools([
      { name: 'absent', command: ['cloche-no-such-tool'], aptPackage: 'absent-package' },
      { name: 'broken', command: ['false'], aptPackage: 'broken-package' },
      { name: 'optional', command: ['cloche-no-such-tool'], optional: 'something more' },
    ]);
    assert.equal(absent?.installable, true);
    assert.match(absent?.remedy ?? '', /absent-package/);
    assert.equal(broken?.status, 'missing');
    assert.equal(broken?.installable, undefined);
    assert.equal(optional?.status, 'ok');
  });

  it('checks of a host name versions, those of commits too', async () => {
    const outputs = ['runc version 1.1.5+ds1', 'runsc version v0.0.0-20260905035102-160fafc42237'];
    const findings = await checkTools(outputs.map((output) => ({ name: output, command: ['echo', output] as const })));
    assert.deepEqual(
      findings.map(({ found }) => found),
      ['1.1.5', '0.0.0-20260905035102-160fafc42237'],
    );
  });

  it('checks of a host pin one version of gVisor', () => {
    assert.match(
      readFileSync(join(GVISOR_MODULE, 'go.mod'), 'utf8'),
      new RegExp(`gvisor.dev/gvisor ${GVISOR_VERSION}`),
    );
  });

  it('checks of a host builds the S3 server of tests in the version that it says', () => {
    assert.match(
      readFileSync(join(VERSITYGW_MODULE, 'go.mod'), 'utf8'),
      new RegExp(`github.com/versity/versitygw ${VERSITYGW_VERSION.replaceAll('.', '\\.')}`),
    );
  });

  it('checks of a host name everything once and say what to do about each that is not ok', async () => {
    const findings = await examineHost({
      cacheRetentionMs: 2_592_000_000,
      dataDir: '/var/lib/none',
      cacheDir: '/var/cache',
      host: '127.0.0.1',
      port: 0,
    });
    assert.equal(new Set(findings.map(({ name }) => name)).size, findings.length);
    for (const { status, remedy, found } of findings) {
      assert.equal(remedy === '', status === 'ok');
      assert.notEqual(found, '');
    }
  });
});
