import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { gvisorConfig } from './gvisor-config.ts';
import { AGENT_COMMAND, ociConfig } from './oci-config.ts';

const PLAIN = ociConfig({
  rootDir: '/run/cloche/x/mounts/sbx_a-1/root',
  cgroupsPath: '/cloche-x/sbx_a-1',
  idRange: { base: 268_500_992, size: 65_536 },
  resources: { cpu: 1.5, memoryBytes: 512 * 1024 * 1024, diskBytes: 1024 ** 3, pids: 100 },
  command: AGENT_COMMAND,
  environment: {},
  timeNamespace: false,
  overlaid: [],
  seccompProgram: undefined,
  kernelsGroupCount: 3,
});

describe('the configuration for gVisor', () => {
  const config = gvisorConfig(PLAIN, '/run/cloche/x/dials/sbx_a-1');

  test('tells the agent where to dial, and of no descriptor that it does not have', () => {
    assert.ok(config.process.env.includes('CLOCHE_DIAL_PATH=/run/cloche/agent.sock'));
    assert.ok(!config.process.env.some((variable) => variable.includes('_FD')));
  });

  test('filters the same calls, and says in gVisor’s words which ones do not exist', () => {
    const { syscalls, defaultAction } = config.linux.seccomp;
    const names = (rules: typeof syscalls) => rules.flatMap((rule) => rule.names);
    assert.deepEqual(names(syscalls), names(PLAIN.linux.seccomp.syscalls));
    assert.equal(defaultAction, 'SCMP_ACT_ERRNO');
    assert.equal(syscalls.find((rule) => rule.names.includes('clone3'))?.action, 'SCMP_ACT_TRACE');
  });

  test('shows the folder of the socket so that the guest cannot change it', () => {
    const mount = config.mounts.find(({ destination }) => destination === '/run/cloche');
    assert.equal(mount?.source, '/run/cloche/x/dials/sbx_a-1');
    assert.ok(mount?.options.includes('ro'));
  });

  test('keeps temporary files on the disk of the sandbox', () => {
    const mount = config.mounts.find(({ destination }) => destination === '/tmp');
    assert.equal(mount?.source, '/run/cloche/x/mounts/sbx_a-1/root/tmp');
  });

  test('bounds memory without swap and processes, in a group of its own', () => {
    const { memory, pids } = config.linux.resources;
    assert.ok(memory.limit > PLAIN.linux.resources.memory.limit);
    assert.equal(memory.swap, memory.limit);
    assert.ok(pids.limit > 100);
    assert.equal(config.linux.cgroupsPath, '/cloche-x/sbx_a-1/gvisor');
  });
});
