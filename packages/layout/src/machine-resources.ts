/**
 * The memory and the processors that Cloche and its sandboxes may use together. `/proc` describes the whole machine, also
 * in a container; the files of the topmost control group that is visible have the container's limits.
 */
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

const KIBIBYTE = 1024;

/** Where a machine describes itself. Tests have folders of their own. */
export interface MachineFiles {
  readonly meminfo: string;
  /** Mount point of the control groups. */
  readonly cgroups: string;
}

const FILES: MachineFiles = { meminfo: '/proc/meminfo', cgroups: '/sys/fs/cgroup' };

/** Memory of the machine, or of the container, in bytes. */
export interface MachineMemory {
  readonly totalBytes: number;
  /** What can be allocated without taking it from other programs; file caches count as available. */
  readonly availableBytes: number;
}

/** @throws Error without a readable `/proc/meminfo` */
export function machineMemory(files: MachineFiles = FILES): MachineMemory {
  const meminfo = readFileSync(files.meminfo, 'utf8');
  const ofMachine = (field: string) =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(meminfo)?.[1] ?? 0) * KIBIBYTE;
  const total = ofMachine('MemTotal');
  const available = ofMachine('MemAvailable');
  const group = groupMemory(files.cgroups);
  if (group === undefined || group.limit >= total) return { totalBytes: total, availableBytes: available };
  return { totalBytes: group.limit, availableBytes: Math.max(0, Math.min(available, group.limit - group.used)) };
}

/** Returns how many processors may compute at a time: those that exist, or a whole number above the container's quota. */
export function machineProcessors({ cgroups }: MachineFiles = FILES): number {
  const v2 = tryRead(join(cgroups, 'cpu.max'))?.split(' ');
  const v1 = ['cpu/cpu.cfs_quota_us', 'cpu/cpu.cfs_period_us'].map((file) => tryRead(join(cgroups, file)));
  const [quota, period] = (v2 ?? v1).map(Number);
  // Without a quota it is `max`, -1, or the file is absent.
  const share = Number(quota) > 0 && Number(period) > 0 ? Math.ceil(Number(quota) / Number(period)) : undefined;
  return Math.min(availableParallelism(), share ?? Number.POSITIVE_INFINITY);
}

/** Returns undefined where memory has no limit. */
function groupMemory(cgroups: string): { limit: number; used: number } | undefined {
  return (
    readGroup(cgroups, 'memory.max', 'memory.current', '') ??
    readGroup(join(cgroups, 'memory'), 'memory.limit_in_bytes', 'memory.usage_in_bytes', 'total_')
  );
}

function readGroup(
  folder: string,
  limitFile: string,
  usageFile: string,
  prefix: string,
): { limit: number; used: number } | undefined {
  const [limit, usage, stat] = [limitFile, usageFile, 'memory.stat'].map((file) => tryRead(join(folder, file)));
  if (limit === undefined || usage === undefined || stat === undefined || limit === 'max') return undefined;
  const cached = ['active_file', 'inactive_file'].map((name) =>
    Number(new RegExp(`^${prefix}${name} (\\d+)$`, 'm').exec(stat)?.[1] ?? 0),
  );
  return { limit: Number(limit), used: cached.reduce((rest, bytes) => rest - bytes, Number(usage)) };
}

function tryRead(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return undefined;
  }
}
