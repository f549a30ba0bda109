import { join } from 'node:path';
import { AGENT_DIAL_FOLDER } from '@cloche/layout';
import type { LaunchSpec } from '@cloche/protocol';
import { AGENT_SHARE } from '../cgroups/divided-group.ts';
import { GVISOR_GROUP } from '../cgroups/gvisor-group.ts';
import { DIAL_SOCKET } from '../relay/agent-relays.ts';
import { type ociConfig, SHARED_MEMORY_PATH } from './oci-config.ts';
import { ENOSYS, EPROTONOSUPPORT, PERSISTENT_IPC_CALLS, type SeccompProfile } from './seccomp-profile.ts';

type OciConfig = ReturnType<typeof ociConfig>;

/** Host processes for gVisor's own kernel, and for each process of the guest. */
const OWN_PIDS = 192;
const PIDS_PER_PROCESS = 4;

/** Variable for the agent: no kernel can be forked into a sandbox that has its own operating system kernel. */
const OWN_ZYGOTE = 'CLOCHE_OWN_ZYGOTE=1';

export interface GvisorPaths {
  /** Folder of the socket that the agent dials. */
  dialDir: string;
  /** Folder of shared memory, on the sandbox's own disk. */
  sharedMemoryDir: string;
}

/**
 * Adapts an OCI configuration to gVisor. gVisor reports its memory limit to the guest; the group's limit is widened
 * before the guest starts (`gvisor-group.ts`).
 */
export function gvisorConfig(config: OciConfig, resources: LaunchSpec['resources'], paths: GvisorPaths) {
  const { memoryBytes } = resources;
  const processes = Math.max(resources.pids, AGENT_SHARE.pids);
  const env = [...config.process.env.filter(isInherited), dialPath(), OWN_ZYGOTE, guardedMemory(memoryBytes)];
  return {
    ...config,
    process: {
      ...config.process,
      env,
      // gVisor's kernel refuses a process above this limit; at the group's limit the host would refuse gVisor itself.
      rlimits: [...config.process.rlimits, { type: 'RLIMIT_NPROC', soft: processes, hard: processes }],
    },
    mounts: [...config.mounts.filter(({ destination }) => destination !== SHARED_MEMORY_PATH), ...binds(config, paths)],
    linux: {
      ...config.linux,
      seccomp: gvisorProfile(config.linux.seccomp),
      // runsc sets no limit on an existing group, so it creates its own below ours.
      cgroupsPath: `${config.linux.cgroupsPath}/${GVISOR_GROUP}`,
      resources: {
        ...config.linux.resources,
        memory: { limit: memoryBytes, swap: memoryBytes },
        pids: { limit: processes * PIDS_PER_PROCESS + OWN_PIDS },
      },
    },
  };
}

/**
 * Converts the profile for gVisor, whose filter can return only EPERM and, for a traced call, ENOSYS. A call for which
 * the profile returns 0 is allowed instead, and so is a socket of a protocol that gVisor does not have: both reach only
 * the sandbox's own kernel. Calls for System V objects are removed, because that kernel does not limit them.
 */
function gvisorProfile(profile: SeccompProfile): SeccompProfile {
  const syscalls = profile.syscalls.map(({ names, errnoRet, ...rule }) => {
    const allowed = names.filter((name) => !PERSISTENT_IPC_CALLS.includes(name));
    return { ...rule, names: allowed, action: gvisorAction(rule.action, errnoRet) };
  });
  return { ...profile, syscalls };
}

function gvisorAction(action: string, errnoRet?: number): string {
  if (errnoRet === ENOSYS) return 'SCMP_ACT_TRACE';
  return errnoRet === 0 || errnoRet === EPROTONOSUPPORT ? 'SCMP_ACT_ALLOW' : action;
}

/** Whether the guest gets a variable as it is. It gets no descriptors. */
function isInherited(variable: string): boolean {
  return !/^CLOCHE_(LISTEN_FD|KERNELS_GROUP_FDS|RESERVE_GROUP_FDS|OWN_ZYGOTE)=/.test(variable);
}

function dialPath(): string {
  return `CLOCHE_DIAL_PATH=${join(AGENT_DIAL_FOLDER, DIAL_SOCKET)}`;
}

/** Returns the variable with the memory limit of all processes together, the agent's included. */
function guardedMemory(memoryBytes: number): string {
  return `CLOCHE_GUARDED_MEMORY=${memoryBytes + AGENT_SHARE.memoryBytes}`;
}

function binds({ root }: OciConfig, { dialDir, sharedMemoryDir }: GvisorPaths) {
  const bind = (destination: string, source: string, ...options: string[]) => ({
    destination,
    type: 'bind',
    source,
    options: ['bind', 'nosuid', 'nodev', ...options],
  });
  return [
    // SECURITY: read-only, so that the guest cannot replace the socket.
    bind(AGENT_DIAL_FOLDER, dialDir, 'ro', 'noexec'),
    // gVisor would mount an unlimited in-memory file system over an empty /tmp.
    bind('/tmp', join(root.path, 'tmp')),
    // gVisor's in-memory file systems have no limit on the number of files.
    bind(SHARED_MEMORY_PATH, sharedMemoryDir, 'noexec'),
  ];
}
