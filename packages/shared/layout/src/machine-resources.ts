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
  /** Free memory, and file caches, which the kernel gives up when programs need memory. */
  readonly availableBytes: number;
}

/** @throws Error without a readable `/proc/meminfo` */
export function machineMemory(files: MachineFiles = FILES): MachineMemory {
  const meminfo = readFileSync(files.meminfo, 'utf8');
  const ofMachine = (field: string) =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(meminfo)?.[1] ?? 0) * KIBIBYTE;
  const total = ofMachine('MemTotal');
  const available = ofMachine('MemAvailable');
  const group = groupMemory(files.cgroups, total);
  if (group === undefined) return { totalBytes: total, availableBytes: available };
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

interface GroupMemory {
  readonly limit: number;
  readonly used: number;
}

/** Returns undefined where the control group may use as much memory as the machine has, or more. */
function groupMemory(cgroups: string, total: number): GroupMemory | undefined {
  const v2 = { folder: cgroups, limitFile: 'memory.max', usageFile: 'memory.current', prefix: '' };
  const v1 = { limitFile: 'memory.limit_in_bytes', usageFile: 'memory.usage_in_bytes', prefix: 'total_' };
  return readGroup(v2, total) ?? readGroup({ folder: join(cgroups, 'memory'), ...v1 }, total);
}

interface GroupFiles {
  readonly folder: string;
  readonly limitFile: string;
  readonly usageFile: string;
  /** Of the fields that count the groups below too. */
  readonly prefix: string;
}

function readGroup({ folder, limitFile, usageFile, prefix }: GroupFiles, total: number): GroupMemory | undefined {
  const limit = Number(tryRead(join(folder, limitFile)) ?? 'max');
  // Without a limit, the counters are not read: the kernel adds them up over all groups, and each launch ahead asks.
  if (!(limit < total)) return undefined;
  const [usage, stat] = [usageFile, 'memory.stat'].map((file) => tryRead(join(folder, file)));
  if (usage === undefined || stat === undefined) return undefined;
  const cached = ['active_file', 'inactive_file'].map((name) =>
    Number(new RegExp(`^${prefix}${name} (\\d+)$`, 'm').exec(stat)?.[1] ?? 0),
  );
  return { limit, used: cached.reduce((rest, bytes) => rest - bytes, Number(usage)) };
}

function tryRead(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return undefined;
  }
}
