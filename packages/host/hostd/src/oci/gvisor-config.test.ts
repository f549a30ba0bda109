import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { gvisorConfig } from './gvisor-config.ts';
import { AGENT_COMMAND, ociConfig } from './oci-config.ts';

const RESOURCES = { cpu: 1.5, memoryBytes: 512 * 1024 * 1024, diskBytes: 1024 ** 3, pids: 100 };
const PLAIN = ociConfig({
  rootDir: '/run/cloche/x/mounts/sbx_a-1/root',
  cgroupsPath: '/cloche-x/sbx_a-1',
  idRange: { base: 268_500_992, size: 65_536, owner: 1_342_177_281 },
  resources: RESOURCES,
  command: AGENT_COMMAND,
  environment: {},
  agentSettings: {},
  timeNamespace: false,
  sysFolders: [],
  hidden: [],
  overlaid: [],
  limits: [],
  seccompProgram: undefined,
  kernelsGroupCount: 3,
});

describe('the configuration for gVisor', () => {
  const sharedMemoryDir = '/run/cloche/x/mounts/sbx_a-1/disk/shm';
  const config = gvisorConfig(PLAIN, RESOURCES, { dialDir: '/run/cloche/x/dials/sbx_a-1', sharedMemoryDir });

  test('the configuration for gVisor sets the variables for an agent that dials and forks its own kernels, and none for absent descriptors', () => {
    assert.ok(config.process.env.includes('CLOCHE_DIAL_PATH=/run/cloche/agent.sock'));
    assert.ok(config.process.env.includes('CLOCHE_OWN_ZYGOTE=1'));
    assert.ok(config.process.env.includes('CLOCHE_KERNELS_FOLDER=/run/cloche-kernels'));
    assert.ok(!config.process.env.some((variable) => variable.includes('_FD')));
  });

  test('the configuration for gVisor filters the same calls, and those that create objects which gVisor does not limit', () => {
    const names = ({ linux }: Pick<typeof config, 'linux'>) => linux.seccomp.syscalls.flatMap((rule) => rule.names);
    const lasting = new Set(['msgget', 'semget']);
    assert.deepEqual(
      names(config),
      names(PLAIN).filter((name) => !lasting.has(name)),
    );
  });

  test("the configuration for gVisor uses gVisor's action for calls that do not exist", () => {
    const { syscalls, defaultAction } = config.linux.seccomp;
    assert.equal(defaultAction, 'SCMP_ACT_ERRNO');
    const actionOf = (name: string) => syscalls.find((rule) => rule.names.includes(name))?.action;
    assert.deepEqual(['clone3', 'io_setup', 'sync'].map(actionOf), [
      'SCMP_ACT_TRACE',
      'SCMP_ACT_TRACE',
      'SCMP_ACT_ALLOW',
    ]);
  });

  test("mounts the socket's folder read-only", () => {
    const mount = config.mounts.find(({ destination }) => destination === '/run/cloche');
    assert.equal(mount?.source, '/run/cloche/x/dials/sbx_a-1');
    assert.ok(mount?.options.includes('ro'));
  });

  test('the configuration for gVisor keeps temporary files and shared memory on the disk of the sandbox', () => {
    const sourcesOf = (path: string) =>
      config.mounts.filter(({ destination }) => destination === path).map(({ source }) => source);
    assert.deepEqual(sourcesOf('/tmp'), ['/run/cloche/x/mounts/sbx_a-1/root/tmp']);
    assert.deepEqual(sourcesOf('/dev/shm'), [sharedMemoryDir]);
  });

  test("the configuration for gVisor limits processes in gVisor's kernel, and allows more of them on the host", () => {
    const { soft, hard } = config.process.rlimits.find(({ type }) => type === 'RLIMIT_NPROC') ?? {};
    assert.deepEqual([soft, hard], [100, 100]);
    assert.ok(config.linux.resources.pids.limit > 2 * 100);
  });

  test("the configuration for gVisor reports the guest's memory limit, in a cgroup of its own", () => {
    const { memory } = config.linux.resources;
    assert.deepEqual(memory, { limit: RESOURCES.memoryBytes, swap: RESOURCES.memoryBytes });
    assert.equal(config.linux.cgroupsPath, '/cloche-x/sbx_a-1/gvisor');
  });
});
