import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, test } from 'node:test';
import { AGENT_SHARE } from '../cgroups/divided-group.ts';
import { AGENT_COMMAND, namespacesLimitIpc, type OciConfigOptions, ociConfig } from './oci-config.ts';
import { seccompProfile } from './seccomp-profile.ts';

const INPUT: OciConfigOptions = {
  rootDir: '/run/cloche/x/mounts/sbx_a-1/root',
  cgroupsPath: '/cloche-x/sbx_a-1',
  userNamespacePath: '/proc/7/fd/20',
  idRange: { base: 268_500_992, size: 65_536, owner: 1_342_177_281 },
  resources: { cpu: 1.5, memoryBytes: 512 * 1024 * 1024, diskBytes: 1024 ** 3, pids: 100 },
  command: AGENT_COMMAND,
  environment: { PIP_CERT: '/etc/ssl/certs/ca-certificates.crt' },
  agentSettings: {},
  timeNamespace: true,
  sysFolders: [],
  hidden: [],
  overlaid: [],
  limits: [],
  seccompProgram: undefined,
  kernelsGroupCount: 2,
};

describe('the configuration of a container', () => {
  test('the configuration of a container has every namespace of its own', () => {
    const types = ociConfig(INPUT).linux.namespaces.map(({ type }) => type);
    assert.deepEqual(types, ['user', 'mount', 'pid', 'network', 'ipc', 'uts', 'cgroup', 'time']);
    assert.ok(!ociConfig({ ...INPUT, timeNamespace: false }).linux.namespaces.some(({ type }) => type === 'time'));
  });

  test('maps its ids to its own range', () => {
    const { uidMappings, gidMappings } = ociConfig(INPUT).linux;
    assert.deepEqual(uidMappings, [{ containerID: 0, hostID: 268_500_992, size: 65_536 }]);
    assert.deepEqual(gidMappings, uidMappings);
  });

  test("the configuration of a container limits memory without swap, cpu and processes to the request plus the agent's share", () => {
    const { memory, cpu, pids } = ociConfig(INPUT).linux.resources;
    assert.equal(memory.limit, 512 * 1024 * 1024 + AGENT_SHARE.memoryBytes);
    assert.equal(memory.swap, memory.limit);
    assert.equal(cpu.quota / cpu.period, 1.5 + AGENT_SHARE.cpu);
    assert.equal(cpu.shares, 1536);
    assert.equal(pids.limit, 100 + AGENT_SHARE.pids);
  });

  test('the configuration of a container raises a smaller processor share to the smallest one that the kernel accepts', () => {
    const { cpu } = ociConfig({ ...INPUT, resources: { ...INPUT.resources, cpu: 0.0001 } }).linux.resources;
    assert.equal(cpu.shares, 2);
  });

  test('the configuration of a container has no capability that reaches beyond the sandbox', () => {
    const { capabilities, noNewPrivileges } = ociConfig(INPUT).process;
    assert.equal(noNewPrivileges, true);
    for (const capability of ['SYS_ADMIN', 'NET_ADMIN', 'NET_RAW', 'SYS_PTRACE', 'MKNOD', 'SYS_RESOURCE', 'BPF']) {
      assert.ok(!capabilities.bounding.includes(`CAP_${capability}`), capability);
    }
    assert.deepEqual(capabilities.permitted, capabilities.bounding);
  });

  test("mounts the kernel's file systems read-only", () => {
    for (const path of ['/sys', '/sys/fs/cgroup']) {
      const mount = ociConfig(INPUT).mounts.find(({ destination }) => destination === path);
      assert.ok(mount?.options.includes('ro'), path);
    }
    const { readonlyPaths, maskedPaths } = ociConfig(INPUT).linux;
    assert.ok(readonlyPaths.includes('/proc/sys') && readonlyPaths.includes('/proc/sysrq-trigger'));
    for (const folder of globSync('/sys/fs/cgroup/*/tasks').map(dirname))
      assert.ok(readonlyPaths.includes(folder), folder);
    assert.ok(maskedPaths.includes('/proc/kcore') && maskedPaths.includes('/sys/firmware'));
  });

  test('the configuration of a container limits the size of every in-memory file system', () => {
    for (const { type, destination, options } of ociConfig(INPUT).mounts) {
      if (type === 'tmpfs')
        assert.ok(
          options.some((option) => option.startsWith('size=')),
          destination,
        );
    }
  });

  test('the configuration of a container has shared memory of half of the memory', () => {
    for (const memoryBytes of [128, 512, 3072].map((mebibytes) => mebibytes * 1024 ** 2)) {
      const { mounts } = ociConfig({ ...INPUT, resources: { ...INPUT.resources, memoryBytes } });
      const { options = [] } = mounts.find(({ destination }) => destination === '/dev/shm') ?? {};
      assert.ok(options.includes(`size=${memoryBytes / 2}`), options.join());
    }
  });

  test('the configuration of a container limits IPC objects that outlive their process, where the kernel supports it', () => {
    const { sysctl } = ociConfig(INPUT).linux;
    const bounds = ['kernel.shm_rmid_forced', 'kernel.msgmni', 'kernel.sem'].filter((name) => name in sysctl);
    assert.ok(bounds.length === 3 || bounds.length === 0, `only ${bounds}`);
  });

  test("the configuration of a container runs the agent below an init, with variables for its socket and its kernels' cgroup", () => {
    const { args, env, cwd, user } = ociConfig(INPUT).process;
    assert.deepEqual(args.slice(0, 3), ['/opt/cloche/bin/tini', '--', '/opt/cloche/bin/node']);
    assert.equal(args.at(-1), '/opt/cloche/agent.cjs');
    assert.ok(env.includes('CLOCHE_TEMPLATE_ENV={"PIP_CERT":"/etc/ssl/certs/ca-certificates.crt"}'));
    assert.ok(env.includes('CLOCHE_LISTEN_FD=3'));
    assert.ok(env.includes('CLOCHE_KERNELS_GROUP_FDS=4,5'));
    assert.ok(env.includes('CLOCHE_RESERVE_GROUP_FDS=6,7'));
    assert.equal(cwd, '/');
    assert.deepEqual(user, { uid: 0, gid: 0 });
  });
});

test("the OCI configuration starts the agent without flags that disable Node's compiled modules", () => {
  const flags = AGENT_COMMAND.filter((word) => /^--\w/.test(word));
  // Processor time of loading these modules: three times as much when they have to be compiled.
  const program = `for (const name of ['net', 'http', 'fs/promises', 'child_process']) require(name);
    const { user, system } = process.cpuUsage(before); console.log(user + system)`;
  const compute = (words: readonly string[]) =>
    Number(
      execFileSync(process.execPath, [...words, '-e', `const before = process.cpuUsage(); ${program}`]).toString(),
    );
  const [plain, flagged] = [[] as number[], [] as number[]];
  for (let round = 0; round < 7; round += 1) {
    plain.push(compute([]));
    flagged.push(compute(flags));
  }
  const ratio = Math.min(...flagged) / Math.min(...plain);
  assert.ok(ratio <= 1.8, `${ratio.toFixed(2)} times`);
  // The flags must not invalidate the agent's code cache either, which a Node without flags made.
  const versionTag = (words: readonly string[]) =>
    execFileSync(process.execPath, [...words, '-p', 'v8.cachedDataVersionTag()']).toString();
  assert.equal(versionTag(flags), versionTag([]));
});

test('passes a compiled filter in addition to the profile', () => {
  const config = ociConfig({ ...INPUT, seccompProgram: 'AAAA' });
  assert.deepEqual(config.annotations, { 'run.oci.seccomp_bpf_data': 'AAAA' });
  assert.deepEqual(config.linux.seccomp, ociConfig(INPUT).linux.seccomp);
  assert.equal('annotations' in ociConfig(INPUT), false);
});

describe('the seccomp profile', () => {
  const profile = seccompProfile({ architecture: 'x64' });
  const named = new Set(profile.syscalls.filter(({ args }) => !args).flatMap(({ names }) => names));

  test('the seccomp profile refuses calls that it does not name', () => {
    assert.equal(profile.defaultAction, 'SCMP_ACT_ERRNO');
    assert.equal(profile.defaultErrnoRet, 1);
  });

  test('the seccomp profile allows none of the calls that attacks on the kernel use', () => {
    const closed = `unshare setns mount umount2 pivot_root open_tree move_mount fsopen bpf perf_event_open userfaultfd
      io_uring_setup keyctl add_key request_key init_module finit_module kexec_load swapon reboot open_by_handle_at
      fanotify_init pidfd_getfd iopl settimeofday quotactl acct`;
    for (const name of closed.split(/\s+/)) assert.ok(!named.has(name), name);
  });

  test('the seccomp profile allows every option of prctl and setsockopt except those that compile a filter in the kernel', () => {
    const isAllowed = (call: string, ...values: [index: number, value: number][]) =>
      profile.syscalls.some(
        ({ names, action, args = [] }) =>
          action === 'SCMP_ACT_ALLOW' &&
          names.includes(call) &&
          args.every(({ index, value, valueTwo }) => {
            const given = values.find(([at]) => at === index)?.[1] ?? 0;
            return (given & value) >>> 0 === valueTwo;
          }),
      );
    for (const option of [0, 1, 21, 23, 36, 38, 0x53564d41, 0xffff_ffff]) assert.ok(isAllowed('prctl', [0, option]));
    assert.ok(!isAllowed('prctl', [0, 22]));
    for (const option of [0, 25, 27, 50, 52, 83]) assert.ok(isAllowed('setsockopt', [1, 1], [2, option]));
    for (const option of [26, 51]) {
      assert.ok(!isAllowed('setsockopt', [1, 1], [2, option]));
      for (const level of [0, 2, 6, 41, 270]) assert.ok(isAllowed('setsockopt', [1, level], [2, option]));
    }
    assert.ok(!isAllowed('seccomp'));
  });

  test('the seccomp profile allows no new namespace, and answers clone3 so that libraries fall back to clone', () => {
    const clone = profile.syscalls.find(({ names }) => names.includes('clone'));
    const newNamespaces = [0x2000_0000, 0x1000_0000, 0x0800_0000, 0x0400_0000, 0x0200_0000, 0x4000_0000, 0x0002_0000];
    for (const flag of newNamespaces) assert.notEqual((clone?.args?.[0]?.value ?? 0) & flag, 0, flag.toString(16));
    const clone3 = profile.syscalls.find(({ names }) => names.includes('clone3'));
    assert.deepEqual([clone3?.action, clone3?.errnoRet], ['SCMP_ACT_ERRNO', 38]);
  });

  test('the seccomp profile allows sockets of the named families and protocols only', () => {
    for (const name of ['socket', 'socketpair', 'io_setup', 'sync']) {
      const rules = profile.syscalls.filter(({ names, action }) => names.includes(name) && action === 'SCMP_ACT_ALLOW');
      for (const { args = [] } of rules) assert.notEqual(args.length, 0, name);
    }
    const wanted = profile.syscalls.filter(({ names }) => names.includes('socket')).map(({ args = [] }) => args.length);
    // Argument checks of a rule: family, type and protocol; family and protocol (netlink); family (Unix).
    assert.deepEqual([...new Set(wanted)].sort(), [1, 2, 3]);
  });

  test('the seccomp profile refuses IPC objects that outlive their process where the kernel does not limit them', () => {
    const unbounded = seccompProfile({ architecture: 'x64', boundsIpc: false }).syscalls.flatMap(({ names }) => names);
    for (const name of ['msgget', 'semget']) assert.ok(named.has(name) && !unbounded.includes(name), name);
    assert.ok(unbounded.includes('shmget'));
    assert.deepEqual(
      ['6.1.0-18-amd64', '6.8.12', '6.9.0', '6.18.44-x', '7.0'].map((kernel) => namespacesLimitIpc(kernel)),
      [false, false, true, true, true],
    );
  });

  test('the seccomp profile allows no calls of another architecture', () => {
    assert.deepEqual(profile.architectures, ['SCMP_ARCH_X86_64']);
    assert.deepEqual(seccompProfile({ architecture: 'arm64' }).architectures, ['SCMP_ARCH_AARCH64']);
    assert.throws(() => seccompProfile({ architecture: 'mips' }), /there is no seccomp profile for mips/);
  });
});
