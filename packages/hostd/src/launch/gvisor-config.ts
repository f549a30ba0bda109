import { join } from 'node:path';
import { AGENT_DIAL_FOLDER } from '@cloche/protocol';
import { DIAL_SOCKET } from '../relay/agent-relays.ts';
import type { ociConfig } from './oci-config.ts';
import { ENOSYS, type SeccompProfile } from './seccomp-profile.ts';

type OciConfig = ReturnType<typeof ociConfig>;

/**
 * What gVisor's kernel takes for itself, beside the agent's share: it has one group of the host's with the programs that
 * it runs.
 */
const OWN_MEMORY_BYTES = 64 * 1024 * 1024;
const OWN_PIDS = 192;

/** As gVisor takes it: its agent dials the socket in `dialDir`, and its kernel has room beside the guest's programs. */
export function gvisorConfig(config: OciConfig, dialDir: string) {
  const { memory, pids } = config.linux.resources;
  const memoryBytes = memory.limit + OWN_MEMORY_BYTES;
  return {
    ...config,
    process: { ...config.process, env: [...config.process.env.filter(isNoDescriptor), dialPath()] },
    mounts: [...config.mounts, ...binds(config.root.path, dialDir)],
    linux: {
      ...config.linux,
      seccomp: asGvisorReads(config.linux.seccomp),
      // runsc sets no limit on a group that it finds, so it makes one of its own below ours.
      cgroupsPath: `${config.linux.cgroupsPath}/gvisor`,
      resources: {
        ...config.linux.resources,
        memory: { limit: memoryBytes, swap: memoryBytes },
        pids: { limit: pids.limit + OWN_PIDS },
      },
    },
  };
}

/** gVisor knows EPERM alone for an answer, unless there could be a tracer: without one that answers ENOSYS. */
function asGvisorReads(profile: SeccompProfile): SeccompProfile {
  const syscalls = profile.syscalls.map(({ errnoRet, ...rule }) => {
    return errnoRet === ENOSYS ? { ...rule, action: 'SCMP_ACT_TRACE' } : rule;
  });
  return { ...profile, syscalls };
}

function isNoDescriptor(variable: string): boolean {
  return !/^CLOCHE_(LISTEN_FD|KERNELS_GROUP_FDS|KERNELS_FOLDER)=/.test(variable);
}

function dialPath(): string {
  return `CLOCHE_DIAL_PATH=${join(AGENT_DIAL_FOLDER, DIAL_SOCKET)}`;
}

function binds(rootDir: string, dialDir: string) {
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
    bind('/tmp', join(rootDir, 'tmp')),
  ];
}
