import { existsSync, readFileSync } from 'node:fs';
import { release } from 'node:os';
import { GUEST_PATH, KERNELS_FOLDER, TEMPLATE_ENVIRONMENT } from '@cloche/layout';
import type { LaunchSpec } from '@cloche/protocol';
import type { IdRange } from '../base/id-range.ts';
import { AGENT_SHARE, CPU_PERIOD_US, cpuQuotaUs } from '../cgroups/divided-group.ts';
import { hiddenPaths } from './kernel-view.ts';
import type { ResourceLimit } from './resource-limits.ts';
import { type SeccompProfile, seccompProfile } from './seccomp-profile.ts';

/** What the root of a sandbox needs to install packages and to look after its processes; nothing that reaches out. */
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
 * The init of every sandbox, which reaps, and the agent below it: that has a quarter of a processor, too little for V8 to
 * compile with four threads. It has none of V8's own flags: with any, Node compiles its modules anew at each start.
 */
export const AGENT_COMMAND = [
  `${GUEST_PATH}/bin/tini`,
  '--',
  `${GUEST_PATH}/bin/node`,
  '--v8-pool-size=1',
  `${GUEST_PATH}/agent.cjs`,
] as const;

/** The agent's listening socket in the sandbox: the first descriptor after the standard ones. */
export const LISTEN_FD = 3;

const SHARES_OF_A_CORE = 1024;
/** Pseudo-terminals of a sandbox; the kernel counts those of all together against `kernel.pty.max`. */
const TERMINALS = 64;
export const SHARED_MEMORY_PATH = '/dev/shm';
const SHARED_MEMORY_BYTES = 64 * 1024 * 1024;

export interface OciMount {
  destination: string;
  type: string;
  source: string;
  options: string[];
}

export interface OciConfigInput {
  rootDir: string;
  cgroupsPath: string;
  idRange: IdRange;
  /** A user namespace that maps this range. Where it is left out, the runtime makes one, which root of the host owns. */
  userNamespacePath?: string | undefined;
  resources: LaunchSpec['resources'];
  command: readonly string[];
  /** The template's variables, for what runs in the sandbox; the agent itself is started without them. */
  environment: Readonly<Record<string, string>>;
  /** Resource limits that the runtime sets. */
  limits: readonly ResourceLimit[];
  /** The oldest runtimes know no time namespaces. */
  timeNamespace: boolean;
  /** Mounted over folders of `/sys`, before the control groups are. */
  sysFolders: readonly OciMount[];
  /** Mounted last, over what the kernel shows. */
  overlaid: readonly OciMount[];
  /** The seccomp profile as crun takes it ready made, in base64; it takes longest over making it. */
  seccompProgram: string | undefined;
  /** How many descriptors that move processes to the kernels' group follow the listening socket. */
  kernelsGroupCount: number;
}

/** The `config.json` of one instance, as the OCI runtime specification has it. */
export function ociConfig(input: OciConfigInput) {
  const { idRange } = input;
  const mappings = [{ containerID: 0, hostID: idRange.base, size: idRange.size }];
  return {
    ociVersion: '1.0.2',
    hostname: 'sandbox',
    root: { path: input.rootDir, readonly: false },
    process: ociProcess(input),
    mounts: [...ociMounts(input.sysFolders), ...input.overlaid],
    // SECURITY: in place of `seccomp` below, which says the same and is what a runtime goes by that does not know this
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
      maskedPaths: hiddenPaths(),
      readonlyPaths: [...READONLY_PATHS, ...cgroupPlaces()],
    },
  };
}

/**
 * The folder of the control groups, and on a v1 host each hierarchy in it by name: crun shows the folder anew with all
 * that it holds, which then may be written until it is closed as well.
 */
function cgroupPlaces(): string[] {
  const mounts = readFileSync('/proc/self/mounts', 'utf8').split('\n');
  const places = mounts.map((line) => line.split(' ')[1] ?? '');
  return [CGROUP_ROOT, ...places.filter((place) => place.startsWith(`${CGROUP_ROOT}/`))];
}

/**
 * Sockets of ended connections (TIME_WAIT) that the kernel keeps for a sandbox, mostly of those to itself. Their memory, 256
 * bytes each, is charged to no group; the kernel's own bound depends on the host's memory (131,072 for 24 GiB).
 */
const MAX_ENDED_CONNECTIONS = 16_384;

/** IPv6 is off, as network policies decide on IPv4 addresses alone; low ports and ping need no privilege. */
function sysctls(): Record<string, string> {
  const ipv6Off = { 'net.ipv6.conf.all.disable_ipv6': '1', 'net.ipv6.conf.default.disable_ipv6': '1' };
  return {
    'net.ipv4.ip_unprivileged_port_start': '0',
    'net.ipv4.ping_group_range': '0 65535',
    'net.ipv4.tcp_max_tw_buckets': String(MAX_ENDED_CONNECTIONS),
    ...(existsSync('/proc/sys/net/ipv6') && ipv6Off),
    ...(letsNamespacesBoundIpc() && BOUNDED_IPC),
  };
}

/**
 * System V objects outlive the process that made them: without these bounds one run could leave so much of a sandbox's
 * memory in them that no kernel starts there any more.
 */
const BOUNDED_IPC = {
  // Shared memory goes with the last process that has it.
  'kernel.shm_rmid_forced': '1',
  // Queues, of 16 KiB each.
  'kernel.msgmni': '256',
  // Semaphores of a set, and of all sets; operations of a call; sets.
  'kernel.sem': '250 32000 100 128',
};

/** Since Linux 6.9 the owner of an IPC namespace may set its bounds; before, the runtime fails to. */
export function letsNamespacesBoundIpc(kernel = release()): boolean {
  const [major = 0, minor = 0] = kernel.split('.').map(Number);
  return major > 6 || (major === 6 && minor >= 9);
}

function ociProcess({ command, environment, kernelsGroupCount, limits }: OciConfigInput) {
  const kernelsGroup = Array.from({ length: kernelsGroupCount }, (_, index) => LISTEN_FD + 1 + index);
  return {
    terminal: false,
    user: { uid: 0, gid: 0 },
    args: command,
    cwd: '/workspace',
    env: [
      'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      'HOME=/root',
      'LANG=C.UTF-8',
      `CLOCHE_LISTEN_FD=${LISTEN_FD}`,
      `CLOCHE_KERNELS_GROUP_FDS=${kernelsGroup.join(',')}`,
      `CLOCHE_KERNELS_FOLDER=${KERNELS_FOLDER}`,
      `${TEMPLATE_ENVIRONMENT}=${JSON.stringify(environment)}`,
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

function namespaces({ timeNamespace, userNamespacePath }: OciConfigInput): { type: string; path?: string }[] {
  const types = ['mount', 'pid', 'network', 'ipc', 'uts', 'cgroup', ...(timeNamespace ? ['time'] : [])];
  const user = { type: 'user', ...(userNamespacePath !== undefined && { path: userNamespacePath }) };
  return [user, ...types.map((type) => ({ type }))];
}

/** Of agent and kernels together. */
function ociResources({ cpu, memoryBytes, pids }: LaunchSpec['resources']) {
  const memory = memoryBytes + AGENT_SHARE.memoryBytes;
  return {
    // Memory and swap together, so equal means no swap.
    memory: { limit: memory, swap: memory },
    cpu: {
      period: CPU_PERIOD_US,
      quota: cpuQuotaUs(cpu + AGENT_SHARE.cpu),
      shares: Math.max(2, Math.round(cpu * SHARES_OF_A_CORE)),
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

function ociMounts(sysFolders: readonly OciMount[]): OciMount[] {
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
    tmpfs(SHARED_MEMORY_PATH, 'noexec', 'nodev', 'mode=1777', `size=${SHARED_MEMORY_BYTES}`, 'nr_inodes=65536'),
    { destination: '/dev/mqueue', type: 'mqueue', source: 'mqueue', options: ['nosuid', 'noexec', 'nodev'] },
    { destination: '/sys', type: 'sysfs', source: 'sysfs', options: ['nosuid', 'noexec', 'nodev', 'ro'] },
    ...sysFolders,
    { destination: '/sys/fs/cgroup', type: 'cgroup', source: 'cgroup', options: ['nosuid', 'noexec', 'nodev', 'ro'] },
    tmpfs('/run', 'nodev', 'mode=755', 'size=16384k'),
  ];
}

let profile: SeccompProfile | undefined;

export function sharedSeccompProfile(): SeccompProfile {
  profile ??= seccompProfile({ boundsIpc: letsNamespacesBoundIpc() });
  return profile;
}
