import { readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { swapDevices } from '@cloche/layout';
import { cgroupMounts } from '../starter/cgroup-layout.mjs';
import { type Finding, ok, warning } from './finding.ts';
import { hasZram } from './zram-swap.ts';

const NAME = 'swap';
const GIB = 1024 ** 3;
/** Measured with a Python context that has loaded pandas. */
const PAUSED_MIB = { inMemory: 20, inZram: 8 };

/** A swap device of the machine. */
export interface FoundSwap {
  readonly path: string;
  readonly sizeBytes: number;
  /** `memory` for zram. `disk` is not known to be encrypted. */
  readonly kind: 'memory' | 'encrypted' | 'disk';
}

export interface SwapOfHost {
  readonly swap: readonly FoundSwap[];
  /** Whether the memory of paused sandboxes can be moved to swap with the control groups of this host. */
  readonly canReclaim: boolean;
  readonly hasZram: boolean;
}

/** Checks where the memory of paused sandboxes goes. */
export async function checkSwap(): Promise<Finding> {
  const mounts = cgroupMounts(await readFile('/proc/self/mountinfo', 'utf8').catch(() => ''));
  const canReclaim = mounts.some(({ type, options }) => type === 'cgroup' && options.includes('memory'));
  const swap = swapDevices().map(({ path, sizeBytes, memoryBytes }): FoundSwap => {
    if (memoryBytes !== undefined) return { path, sizeBytes, kind: 'memory' };
    return { path, sizeBytes, kind: isEncrypted(path) ? 'encrypted' : 'disk' };
  });
  return judgeSwap({ swap, canReclaim, hasZram: hasZram() });
}

/** Exported for its tests. */
export function judgeSwap({ swap, canReclaim, hasZram }: SwapOfHost): Finding {
  const found = swap.map(({ path, sizeBytes }) => `${path} ${(sizeBytes / GIB).toFixed(1)} GiB`).join(', ') || 'none';
  const open = swap.filter(({ kind }) => kind === 'disk').map(({ path }) => path);
  if (open.length > 0) {
    const remedy = `The memory of sandboxes may be written there unencrypted. Encrypt it, or run \`swapoff ${open.join(' ')}\` and set CLOCHE_ZRAM=on.`;
    return warning(NAME, found, remedy);
  }
  const { inMemory, inZram } = PAUSED_MIB;
  if (!canReclaim) {
    return ok(NAME, `${found}; paused sandboxes keep all their memory, because cgroups v2 are not supported for this`);
  }
  if (swap.length > 0) return ok(NAME, found);
  const each = `a paused sandbox keeps ${inMemory} MiB and more`;
  if (!hasZram) return warning(NAME, `none: ${each}`, 'Add encrypted swap, or use a kernel with CONFIG_ZRAM.');
  const remedy = `With CLOCHE_ZRAM=on it keeps about ${inZram} MiB: starting Cloche then adds compressed swap in memory.`;
  return warning(NAME, `none: ${each}`, remedy);
}

/** Returns whether a device, or the one that a file is on, is a dm-crypt device or above one. */
function isEncrypted(path: string): boolean {
  try {
    const stat = statSync(path);
    const number = stat.isBlockDevice() ? stat.rdev : stat.dev;
    return isCrypt(realpathSync(`/sys/dev/block/${majorOf(number)}:${minorOf(number)}`));
  } catch {
    return false;
  }
}

function isCrypt(folder: string): boolean {
  if (read(join(folder, 'dm', 'uuid')).startsWith('CRYPT-')) return true;
  return slavesOf(folder).some((name) => isCrypt(realpathSync(join(folder, 'slaves', name))));
}

function slavesOf(folder: string): string[] {
  try {
    return readdirSync(join(folder, 'slaves'));
  } catch {
    return [];
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/** As `gnu_dev_major` and `gnu_dev_minor`, for numbers that fit into 32 bits. */
function majorOf(number: number): number {
  return (number >> 8) & 0xfff;
}

function minorOf(number: number): number {
  return (number & 0xff) | ((number >> 12) & 0xfff00);
}
