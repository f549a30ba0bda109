import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

const KIBIBYTE = 1024;

/** Where a machine describes its swap. Tests have folders of their own. */
export interface SwapFiles {
  readonly swaps: string;
  /** Folder with a folder for each block device. */
  readonly blocks: string;
}

const FILES: SwapFiles = { swaps: '/proc/swaps', blocks: '/sys/block' };

export interface SwapDevice {
  readonly path: string;
  readonly sizeBytes: number;
  readonly usedBytes: number;
  /** Memory that holds what was swapped. Undefined for a disk or a file on one, which takes none. */
  readonly memoryBytes: number | undefined;
}

/** Returns where the machine swaps to, in the order of the kernel. Empty for a machine without swap. */
export function swapDevices({ swaps, blocks }: SwapFiles = FILES): SwapDevice[] {
  const [, ...lines] = (tryRead(swaps) ?? '').split('\n').filter((line) => line !== '');
  return lines.map((line) => {
    const [escaped = '', , size, used] = line.split(/\s+/);
    const path = escaped.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)));
    return {
      path,
      sizeBytes: Number(size) * KIBIBYTE,
      usedBytes: Number(used) * KIBIBYTE,
      memoryBytes: memoryOf(path, blocks),
    };
  });
}

/** Returns the memory that a zram device takes, with what it needs for itself. */
function memoryOf(path: string, blocks: string): number | undefined {
  const name = basename(path);
  if (!/^zram\d+$/.test(name)) return undefined;
  const [, , used] = (tryRead(join(blocks, name, 'mm_stat')) ?? '').trim().split(/\s+/);
  return Number(used) || 0;
}

function tryRead(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
