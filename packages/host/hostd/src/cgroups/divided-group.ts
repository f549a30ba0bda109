import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { LaunchSpec } from '@cloche/protocol';
import type { CgroupHierarchy } from './cgroup-hierarchies.ts';

/** Names of the parts of an instance's group. */
export const AGENT_GROUP = 'agent';
export const KERNELS_GROUP = 'kernels';
export const RESERVE_GROUP = 'reserve';

/**
 * Resources of the agent, added to those that the sandbox asked for. The kernels cannot use them, so whatever the
 * kernels do, the agent can answer, start processes and end them.
 */
export const AGENT_SHARE = { cpu: 0.25, memoryBytes: 64 * 1024 * 1024, pids: 64 } as const;

/**
 * Limits of the group for the one command that its owner runs in a sandbox without a free process: the supervisor of
 * the command and three processes. The agent's share includes them.
 */
export const RESERVE = { cpu: AGENT_SHARE.cpu, memoryBytes: AGENT_SHARE.memoryBytes / 2, pids: 4 } as const;

/**
 * Share of a sandbox's memory that its sockets may buffer in addition to that memory. Control groups v1 account for it
 * separately, and do not count it unless it has a limit; v2 counts it as memory.
 */
const SOCKET_BUFFERS_SHARE = 1 / 4;

export const CPU_PERIOD_US = 100_000;
/**
 * Eight times the kernels' weight. No more, because Linux divides the weight of an instance between processors by the
 * load on each: if an agent of the greatest weight runs on one processor, kernels on another get a hundredth.
 */
const AGENT_CPU_SHARES = 8192;
const AGENT_CPU_WEIGHT = 800;

const DIVIDED_CONTROLLERS = ['cpu', 'memory', 'pids'] as const;
type Controller = (typeof DIVIDED_CONTROLLERS)[number];
type Limits = Pick<LaunchSpec['resources'], 'cpu' | 'memoryBytes' | 'pids'>;

/**
 * Returns the hierarchies in which an instance's group is divided: v1 hierarchies with a controller that counts, or
 * else the v2 one.
 */
export function dividedHierarchies(hierarchies: readonly CgroupHierarchy[]): CgroupHierarchy[] {
  const ofVersion1 = hierarchies.filter((hierarchy) => controllersOf(hierarchy).length > 0);
  return ofVersion1.length > 0 ? ofVersion1 : hierarchies.filter(({ version }) => version === 2);
}

/** Moves the processes in `group` to the agent's part and limits the parts. Throws when a limit cannot be set. */
export function divide(hierarchy: CgroupHierarchy, group: string, resources: Limits): void {
  const [agent, kernels, reserve] = [AGENT_GROUP, KERNELS_GROUP, RESERVE_GROUP].map((name) => join(group, name)) as [
    string,
    string,
    string,
  ];
  for (const pid of readFileSync(join(group, 'cgroup.procs'), 'utf8').split('\n')) {
    if (pid !== '') writeFileSync(join(agent, 'cgroup.procs'), pid);
  }
  if (hierarchy.version === 2) {
    // Only a group without processes of its own may delegate its controllers.
    writeFileSync(join(group, 'cgroup.subtree_control'), DIVIDED_CONTROLLERS.map((name) => `+${name}`).join(' '));
    set(agent, { 'cpu.weight': AGENT_CPU_WEIGHT });
    set(kernels, limitsOfVersion2(resources));
    set(reserve, limitsOfVersion2(RESERVE));
    return;
  }
  for (const controller of controllersOf(hierarchy)) {
    if (controller === 'cpu') set(agent, { 'cpu.shares': AGENT_CPU_SHARES });
    set(kernels, limitsOfVersion1(controller, kernels, resources));
    set(reserve, limitsOfVersion1(controller, reserve, RESERVE));
  }
}

/** Returns the CPU quota in microseconds of each period, at least the kernel's minimum. */
export function cpuQuotaUs(cpu: number): number {
  return Math.max(1000, Math.round(cpu * CPU_PERIOD_US));
}

function limitsOfVersion1(controller: Controller, group: string, { cpu, memoryBytes, pids }: Limits) {
  switch (controller) {
    case 'cpu':
      return { 'cpu.cfs_period_us': CPU_PERIOD_US, 'cpu.cfs_quota_us': cpuQuotaUs(cpu) };
    case 'memory': {
      const withSwap = 'memory.memsw.limit_in_bytes';
      const countsSwap = existsSync(join(group, withSwap));
      return {
        // First, because the limit of memory with swap may not be below that of memory alone.
        'memory.limit_in_bytes': memoryBytes,
        ...(countsSwap && { [withSwap]: memoryBytes }),
        // Limits datagram buffers as well, despite its name.
        'memory.kmem.tcp.limit_in_bytes': Math.floor(memoryBytes * SOCKET_BUFFERS_SHARE),
      };
    }
    case 'pids':
      return { 'pids.max': pids };
  }
}

function limitsOfVersion2({ cpu, memoryBytes, pids }: Limits) {
  return {
    'cpu.max': `${cpuQuotaUs(cpu)} ${CPU_PERIOD_US}`,
    'memory.max': memoryBytes,
    'memory.swap.max': 0,
    'pids.max': pids,
  };
}

function controllersOf({ version, controllers }: CgroupHierarchy): Controller[] {
  return version === 2 ? [] : DIVIDED_CONTROLLERS.filter((name) => controllers.includes(name));
}

function set(group: string, bounds: Readonly<Record<string, string | number>>): void {
  for (const [name, value] of Object.entries(bounds)) {
    try {
      writeFileSync(join(group, name), String(value));
    } catch (error) {
      // A kernel without swap accounting lacks this file, and the group above has no swap limit either.
      if (name !== 'memory.swap.max') throw error;
    }
  }
}
