import { existsSync, readFileSync } from 'node:fs';
import { release } from 'node:os';
import { GUEST_PATH, KERNELS_FOLDER, TEMPLATE_ENVIRONMENT } from '@cloche/layout';
import type { LaunchSpec } from '@cloche/protocol';
import type { IdRange } from '../base/id-range.ts';
import { SANDBOX_HOST_NAME } from '../base/sandbox-host-name.ts';
import { AGENT_SHARE, CPU_PERIOD_US, cpuQuotaUs } from '../cgroups/divided-group.ts';
import { hiddenPaths } from './kernel-view.ts';
import type { OciMount } from './oci-mount.ts';
import type { ResourceLimit } from './resource-limits.ts';
import { type SeccompProfile, seccompProfile } from './seccomp-profile.ts';

/**
 * Capabilities that a sandbox's root needs to install packages and manage its processes; none reaches outside the
 * sandbox.
 */
export const CAPABILITIES = [
  'CAP_CHOWN',
  'CAP_DAC_OVERRIDE',
  'CAP_FOWNER',
  'CAP_FSETID',
  'CAP_KILL',
  'CAP_SETGID',
  'CAP_SETUID',
  'CAP_SETFCAP',
  'CAP_NET_BIND_SERVICE',
  'CAP_SYS_CHROOT',
];

const READONLY_PATHS = ['/proc/bus', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'];
const CGROUP_ROOT = '/sys/fs/cgroup';

/**
 * Command of every sandbox: an init that reaps, and the agent below it. The agent has a quarter of a processor, too
 * little for V8 to compile with four threads. No V8 flags: with any, Node recompiles its modules at each start.
 *
 * SECURITY: without `--disable-sigusr1`, a signal opens a debugger in the agent, through which every process in the
 * sandbox can run code as root (e2e/security/container).
 */
export const AGENT_COMMAND = [
  `${GUEST_PATH}/bin/tini`,
  '--',
  `${GUEST_PATH}/bin/node`,
  '--v8-pool-size=1',
  '--disable-sigusr1',
  `${GUEST_PATH}/agent.cjs`,
] as const;

const GUEST_LIBRARIES = `${GUEST_PATH}/lib`;

/**
 * The same command with the loader and libraries of the guest folder, for a root file system that was not built on this
 * host: it may lack Node's libraries, have older ones, or another C library.
 */
export const AGENT_COMMAND_WITH_LIBRARIES = [
  ...AGENT_COMMAND.slice(0, 2),
  `${GUEST_LIBRARIES}/ld.so`,
  '--library-path',
  GUEST_LIBRARIES,
  ...AGENT_COMMAND.slice(2),
] as const;

/** The agent's listening socket in the sandbox: the first descriptor after the standard ones. */
export const LISTEN_FD = 3;

const SHARES_PER_CORE = 1024;
/** Pseudo-terminals of a sandbox; all sandboxes count against the host's `kernel.pty.max`. */
const TERMINALS = 64;
export const SHARED_MEMORY_PATH = '/dev/shm';

export interface OciConfigOptions {
  rootDir: string;
  cgroupsPath: string;
  idRange: IdRange;
  /** A user namespace that maps this range. Without it the runtime creates one, owned by the host's root. */
  userNamespacePath?: string | undefined;
  resources: LaunchSpec['resources'];
  command: readonly string[];
  /** The template's variables for processes in the sandbox; the agent itself starts without them. */
  environment: Readonly<Record<string, string>>;
  /** Variables of the agent alone. */
  agentSettings: Readonly<Record<string, string>>;
  /** Resource limits that the runtime sets. */
  limits: readonly ResourceLimit[];
  /** Whether the sandbox gets a time namespace; the oldest runtimes do not support them. */
  timeNamespace: boolean;
  /** Mounts over folders of `/sys`, made before that of the control groups. */
  sysFolders: readonly OciMount[];
  /** Mounts made last, over files of the kernel. */
  overlaid: readonly OciMount[];
  /** Files that the runtime covers with something empty, besides those that are covered in every sandbox. */
  hidden: readonly string[];
  /** The compiled seccomp profile in base64, for crun, which otherwise spends most of its time on compiling it. */
  seccompProgram: string | undefined;
  /** Number of descriptors after the listening socket that move processes to the kernels' group. */
  kernelsGroupCount: number;
}

/** Returns the `config.json` of one instance, as the OCI runtime specification defines it. */
export function ociConfig(input: OciConfigOptions) {
  const { idRange } = input;
  const mappings = [{ containerID: 0, hostID: idRange.base, size: idRange.size }];
  return {
    ociVersion: '1.0.2',
    hostname: SANDBOX_HOST_NAME,
    root: { path: input.rootDir, readonly: false },
    process: ociProcess(input),
    mounts: [...ociMounts(input), ...input.overlaid],
    // SECURITY: crun uses this instead of `seccomp` below. Both describe the same filter; other runtimes use `seccomp`
    // (syscalls.test.ts).
    ...(input.seccompProgram !== undefined && { annotations: { 'run.oci.seccomp_bpf_data': input.seccompProgram } }),
    linux: {
      namespaces: namespaces(input),
      uidMappings: mappings,
      gidMappings: mappings,
      cgroupsPath: input.cgroupsPath,
      resources: ociResources(input.resources),
      seccomp: sharedSeccompProfile(),
      sysctl: sysctls(),
      rootfsPropagation: 'private',
      maskedPaths: [...hiddenPaths(), ...input.hidden],
      readonlyPaths: [...READONLY_PATHS, ...cgroupMountPoints(), ...withinReadonlyPaths(input.overlaid)],
    },
  };
}

/** Returns the files that are mounted below paths which runtimes mount once more: each is writable unless it is listed. */
function withinReadonlyPaths(mounts: readonly OciMount[]): string[] {
  const targets = mounts.map(({ destination }) => destination);
  return targets.filter((target) => READONLY_PATHS.some((path) => target.startsWith(`${path}/`)));
}

/**
 * Returns the folder of the control groups, and on a v1 host each hierarchy in it: crun mounts the folder again with
 * all its submounts, and each is writable unless it is listed here.
 */
function cgroupMountPoints(): string[] {
  const mounts = readFileSync('/proc/self/mounts', 'utf8').split('\n');
  const mountPoints = mounts.map((line) => line.split(' ')[1] ?? '');
  return [CGROUP_ROOT, ...mountPoints.filter((mountPoint) => mountPoint.startsWith(`${CGROUP_ROOT}/`))];
}

/**
 * Sockets of ended connections (TIME_WAIT) that the kernel keeps for a sandbox, mostly of connections to itself. Their
 * memory, 256 bytes each, is charged to no group. The kernel's own limit depends on the host's memory (131,072 for 24
 * GiB).
 */
const MAX_ENDED_CONNECTIONS = 16_384;

/**
 * Returns the sandbox's sysctls. IPv6 is off, because network policies handle IPv4 addresses only. Low ports and ping
 * need no privilege.
 */
function sysctls(): Record<string, string> {
  const ipv6Off = { 'net.ipv6.conf.all.disable_ipv6': '1', 'net.ipv6.conf.default.disable_ipv6': '1' };
  return {
    'net.ipv4.ip_unprivileged_port_start': '0',
    'net.ipv4.ping_group_range': '0 65535',
    'net.ipv4.tcp_max_tw_buckets': String(MAX_ENDED_CONNECTIONS),
    ...(existsSync('/proc/sys/net/ipv6') && ipv6Off),
    ...(namespacesLimitIpc() && IPC_LIMITS),
  };
}

/**
 * Limits of System V objects, which outlive the process that made them: without limits one run could fill so much of a
 * sandbox's memory with them that no kernel starts there any more.
 */
const IPC_LIMITS = {
  // Frees shared memory with the last process that has it attached.
  'kernel.shm_rmid_forced': '1',
  // Message queues, of 16 KiB each.
  'kernel.msgmni': '256',
  // Semaphores in a set and in all sets, operations in a call, number of sets.
  'kernel.sem': '250 32000 100 128',
};

/**
 * Returns whether the owner of an IPC namespace may set its limits, as since Linux 6.9; before, the runtime would fail.
 */
export function namespacesLimitIpc(kernel = release()): boolean {
  const [major = 0, minor = 0] = kernel.split('.').map(Number);
  return major > 6 || (major === 6 && minor >= 9);
}

function ociProcess({ command, environment, agentSettings, kernelsGroupCount, limits }: OciConfigOptions) {
  const descriptorsFrom = (first: number) => Array.from({ length: kernelsGroupCount }, (_, index) => first + index);
  const kernelsGroup = descriptorsFrom(LISTEN_FD + 1);
  const reserve = descriptorsFrom(LISTEN_FD + 1 + kernelsGroupCount);
  return {
    terminal: false,
    user: { uid: 0, gid: 0 },
    args: command,
    // Not the workspace, which the setup of a template can have removed. The agent makes it again.
    cwd: '/',
    env: [
      'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      'HOME=/root',
      'LANG=C.UTF-8',
      `CLOCHE_LISTEN_FD=${LISTEN_FD}`,
      `CLOCHE_KERNELS_GROUP_FDS=${kernelsGroup.join(',')}`,
      `CLOCHE_RESERVE_GROUP_FDS=${reserve.join(',')}`,
      `CLOCHE_KERNELS_FOLDER=${KERNELS_FOLDER}`,
      `${TEMPLATE_ENVIRONMENT}=${JSON.stringify(environment)}`,
      ...Object.entries(agentSettings).map(([name, value]) => `${name}=${value}`),
    ],
    capabilities: {
      bounding: CAPABILITIES,
      effective: CAPABILITIES,
      permitted: CAPABILITIES,
    },
    rlimits: limits.map(({ name, value }) => ({ type: `RLIMIT_${name.toUpperCase()}`, soft: value, hard: value })),
    oomScoreAdj: 0,
    noNewPrivileges: true,
  };
}

function namespaces({ timeNamespace, userNamespacePath }: OciConfigOptions): { type: string; path?: string }[] {
  const types = ['mount', 'pid', 'network', 'ipc', 'uts', 'cgroup', ...(timeNamespace ? ['time'] : [])];
  const user = { type: 'user', ...(userNamespacePath !== undefined && { path: userNamespacePath }) };
  return [user, ...types.map((type) => ({ type }))];
}

/** Returns the limits of agent and kernels together. */
function ociResources({ cpu, memoryBytes, pids }: LaunchSpec['resources']) {
  const memory = memoryBytes + AGENT_SHARE.memoryBytes;
  return {
    // The limit of memory and swap together; an equal value means no swap.
    memory: { limit: memory, swap: memory },
    cpu: {
      period: CPU_PERIOD_US,
      quota: cpuQuotaUs(cpu + AGENT_SHARE.cpu),
      shares: Math.max(2, Math.round(cpu * SHARES_PER_CORE)),
    },
    pids: { limit: pids + AGENT_SHARE.pids },
    devices: [{ allow: false, access: 'rwm' }, ...HARMLESS_DEVICES],
  };
}

/** null, zero, full, tty, random, urandom, ptmx and pseudo-terminals. */
const HARMLESS_DEVICES = [
  [1, 3],
  [1, 5],
  [1, 7],
  [5, 0],
  [1, 8],
  [1, 9],
  [5, 2],
  [136, undefined],
].map(([major, minor]) => ({ allow: true, type: 'c', major, ...(minor !== undefined && { minor }), access: 'rwm' }));

function ociMounts({ sysFolders, resources }: OciConfigOptions): OciMount[] {
  // Half of the memory, as on a machine of this size: files outlive the processes that a lack of memory ends.
  const sharedMemoryBytes = Math.floor(resources.memoryBytes / 2);
  const tmpfs = (destination: string, ...options: string[]) => ({
    destination,
    type: 'tmpfs',
    source: 'tmpfs',
    options: ['nosuid', ...options],
  });
  return [
    { destination: '/proc', type: 'proc', source: 'proc', options: ['nosuid', 'noexec', 'nodev'] },
    tmpfs('/dev', 'strictatime', 'mode=755', 'size=65536k'),
    {
      destination: '/dev/pts',
      type: 'devpts',
      source: 'devpts',
      options: ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620', 'gid=5', `max=${TERMINALS}`],
    },
    tmpfs(SHARED_MEMORY_PATH, 'noexec', 'nodev', 'mode=1777', `size=${sharedMemoryBytes}`, 'nr_inodes=65536'),
    { destination: '/dev/mqueue', type: 'mqueue', source: 'mqueue', options: ['nosuid', 'noexec', 'nodev'] },
    { destination: '/sys', type: 'sysfs', source: 'sysfs', options: ['nosuid', 'noexec', 'nodev', 'ro'] },
    ...sysFolders,
    { destination: '/sys/fs/cgroup', type: 'cgroup', source: 'cgroup', options: ['nosuid', 'noexec', 'nodev', 'ro'] },
    tmpfs('/run', 'nodev', 'mode=755', 'size=16384k'),
  ];
}

let profile: SeccompProfile | undefined;

export function sharedSeccompProfile(): SeccompProfile {
  profile ??= seccompProfile({ boundsIpc: namespacesLimitIpc() });
  return profile;
}
