import { randomUUID } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { LaunchSpec } from '@cloche/protocol';

type Resources = LaunchSpec['resources'];

/** A kernel file that describes the host, and the content that replaces it in a sandbox. */
export interface VisibleLimit {
  /** Path in the sandbox. */
  path: string;
  content: string;
}

export const MEMINFO = '/proc/meminfo';
export const BOOT_ID = '/proc/sys/kernel/random/boot_id';
const KIBIBYTE = 1024;

/**
 * Returns files that state a sandbox's resources, to replace kernel files that describe the host: programs size their
 * caches and count their threads by them. They are written once, so they state the limits and not what is left.
 */
export function visibleLimits(resources: Resources, { cpuinfo = readFileSync('/proc/cpuinfo', 'utf8') } = {}) {
  const cores = coresOf(resources);
  const limits: VisibleLimit[] = [
    { path: MEMINFO, content: meminfo(resources) },
    { path: '/proc/cpuinfo', content: firstProcessors(cpuinfo, cores) },
    { path: '/sys/devices/system/cpu/online', content: cores === 1 ? '0\n' : `0-${cores - 1}\n` },
  ];
  return limits.filter(({ path }) => existsSync(path));
}

/**
 * Returns the file that identifies a boot, with an id of one instance. The host's own is equal in all sandboxes, so that
 * they could be linked; with one for each instance, a program can tell that its processes were started anew.
 */
export function ownBootId(): VisibleLimit {
  return { path: BOOT_ID, content: `${randomUUID()}\n` };
}

/** Returns thread limits for the libraries of OpenMP and BLAS: more threads than processors are slower than fewer. */
export function threadLimits(resources: Resources): Record<string, string> {
  const threads = String(coresOf(resources));
  return {
    OMP_NUM_THREADS: threads,
    OPENBLAS_NUM_THREADS: threads,
    MKL_NUM_THREADS: threads,
    NUMEXPR_MAX_THREADS: threads,
  };
}

/**
 * Writes the files to the sandbox's disk, whose limit they count against, and returns their mounts.
 *
 * SECURITY: their owner is the host's root, which no user of the sandbox is mapped to. Runtimes mount `/proc/sys` once
 * more, and the mount of a file in it is then read-only because `readonlyPaths` has it (boot-id.runtime.test.ts).
 */
export function writeVisibleLimits(diskDir: string, limits: readonly VisibleLimit[]) {
  const folder = join(diskDir, 'limits');
  mkdirSync(folder, { mode: 0o755 });
  return limits.map(({ path, content }, index) => {
    const source = join(folder, String(index));
    writeFileSync(source, content, { flag: 'wx', mode: 0o444 });
    chmodSync(source, 0o444);
    return { destination: path, type: 'bind', source, options: ['bind', 'ro', 'nosuid', 'nodev', 'noexec'] };
  });
}

function coresOf({ cpu }: Resources): number {
  return Math.min(Math.max(1, Math.ceil(cpu)), availableParallelism());
}

function meminfo({ memoryBytes }: Resources): string {
  const fields = {
    MemTotal: memoryBytes,
    MemFree: memoryBytes,
    MemAvailable: memoryBytes,
    Buffers: 0,
    Cached: 0,
    SwapCached: 0,
    Active: 0,
    Inactive: 0,
    SwapTotal: 0,
    SwapFree: 0,
    Shmem: 0,
    Slab: 0,
    SReclaimable: 0,
    SUnreclaim: 0,
  };
  const lines = Object.entries(fields).map(([name, bytes]) => {
    return `${`${name}:`.padEnd(16)}${String(Math.floor(bytes / KIBIBYTE)).padStart(8)} kB\n`;
  });
  return lines.join('');
}

/** Returns the first blocks of cpuinfo; each processor has one, with an empty line after it. */
function firstProcessors(cpuinfo: string, count: number): string {
  return cpuinfo
    .split(/(?<=\n\n)/)
    .slice(0, count)
    .join('');
}
