import { join } from 'node:path';
import { AGENT_DIAL_FOLDER } from '@cloche/layout';
import type { LaunchSpec } from '@cloche/protocol';
import { AGENT_SHARE } from '../cgroups/divided-group.ts';
import { GVISOR_GROUP } from '../cgroups/gvisor-group.ts';
import { DIAL_SOCKET } from '../relay/agent-relays.ts';
import { type ociConfig, SHARED_MEMORY_PATH } from './oci-config.ts';
import { ENOSYS, LASTING_OBJECTS, type SeccompProfile } from './seccomp-profile.ts';

type OciConfig = ReturnType<typeof ociConfig>;

/** What gVisor's kernel takes of the host for itself, and for each process of the guest. */
const OWN_PIDS = 192;
const PIDS_A_PROCESS = 4;

/** Nothing can be forked into a kernel of the sandbox's own. */
const OWN_ZYGOTE = 'CLOCHE_OWN_ZYGOTE=1';

export interface GvisorPlaces {
  /** Holds the socket that the agent dials. */
  dialDir: string;
  /** On the sandbox's own disk. */
  sharedMemoryDir: string;
}

/**
 * As gVisor takes it. The bound of memory is what its kernel tells the guest of; the group's is wider by the time the
 * guest starts (`gvisor-group.ts`).
 */
export function gvisorConfig(config: OciConfig, resources: LaunchSpec['resources'], places: GvisorPlaces) {
  const { memoryBytes } = resources;
  const processes = Math.max(resources.pids, AGENT_SHARE.pids);
  const env = [...config.process.env.filter(isNoDescriptor), dialPath(), OWN_ZYGOTE, memoryToGuard(memoryBytes)];
  return {
    ...config,
    process: {
      ...config.process,
      env,
      // A process too many is refused by its kernel; the host's group would refuse that kernel itself.
      rlimits: [...config.process.rlimits, { type: 'RLIMIT_NPROC', soft: processes, hard: processes }],
    },
    mounts: [
      ...config.mounts.filter(({ destination }) => destination !== SHARED_MEMORY_PATH),
      ...binds(config, places),
    ],
    linux: {
      ...config.linux,
      seccomp: asGvisorReads(config.linux.seccomp),
      // runsc sets no limit on a group that it finds, so it makes one of its own below ours.
      cgroupsPath: `${config.linux.cgroupsPath}/${GVISOR_GROUP}`,
      resources: {
        ...config.linux.resources,
        memory: { limit: memoryBytes, swap: memoryBytes },
        pids: { limit: processes * PIDS_A_PROCESS + OWN_PIDS },
      },
    },
  };
}

/**
 * gVisor has no other answer than EPERM and, for a call that a tracer would decide, ENOSYS. A call that answers 0 on Linux
 * is let through: it reaches the sandbox's own kernel alone. That kernel sets no bound to System V objects.
 */
function asGvisorReads(profile: SeccompProfile): SeccompProfile {
  const syscalls = profile.syscalls.map(({ names, errnoRet, ...rule }) => {
    const allowed = names.filter((name) => !LASTING_OBJECTS.includes(name));
    return { ...rule, names: allowed, action: gvisorAction(rule.action, errnoRet) };
  });
  return { ...profile, syscalls };
}

function gvisorAction(action: string, errnoRet?: number): string {
  if (errnoRet === ENOSYS) return 'SCMP_ACT_TRACE';
  return errnoRet === 0 ? 'SCMP_ACT_ALLOW' : action;
}

function isNoDescriptor(variable: string): boolean {
  return !/^CLOCHE_(LISTEN_FD|KERNELS_GROUP_FDS)=/.test(variable);
}

function dialPath(): string {
  return `CLOCHE_DIAL_PATH=${join(AGENT_DIAL_FOLDER, DIAL_SOCKET)}`;
}

/** Of all programs together, the agent among them. */
function memoryToGuard(memoryBytes: number): string {
  return `CLOCHE_GUARDED_MEMORY=${memoryBytes + AGENT_SHARE.memoryBytes}`;
}

function binds({ root }: OciConfig, { dialDir, sharedMemoryDir }: GvisorPlaces) {
  const bind = (destination: string, source: string, ...options: string[]) => ({
    destination,
    type: 'bind',
    source,
    options: ['bind', 'nosuid', 'nodev', ...options],
  });
  return [
    // SECURITY: read-only, so that the guest can put nothing in the place of the socket.
    bind(AGENT_DIAL_FOLDER, dialDir, 'ro', 'noexec'),
    // Over an empty folder of that name gVisor would put a file system in memory, without a bound of its own.
    bind('/tmp', join(root.path, 'tmp')),
    // Its file systems in memory have no bound of files.
    bind(SHARED_MEMORY_PATH, sharedMemoryDir, 'noexec'),
  ];
}
