import { readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';

/** Slab cache whose objects the kernel counts; each lock is one object. */
const CACHE = 'file_lock_cache';
/** Locks after which counting stops; the exact number above it does not matter. */
const MAX_COUNTED = 1_000_000;

/** Returns the number of file locks of all processes of the host; undefined where this kernel does not expose it. */
export function countLocks(): number | undefined {
  try {
    return Number.parseInt(readFileSync(`/sys/kernel/slab/${CACHE}/total_objects`, 'utf8'), 10);
  } catch {
    return fromSlabInfo();
  }
}

function fromSlabInfo(): number | undefined {
  try {
    const objects = new RegExp(`^${CACHE} +\\d+ +(\\d+)`, 'm').exec(readFileSync('/proc/slabinfo', 'utf8'))?.[1];
    return objects === undefined ? undefined : Number(objects);
  } catch {
    return undefined;
  }
}

/** Returns the number of locks that a process holds; 0 if it has ended. */
export async function countLocksOfProcess(pid: number): Promise<number> {
  const folder = `/proc/${pid}/fdinfo`;
  let locks = 0;
  for (const fd of await readdir(folder).catch(() => [])) {
    const info = await readFile(`${folder}/${fd}`, 'latin1').catch(() => '');
    locks += info.split('\nlock:').length - 1;
    if (locks > MAX_COUNTED) break;
  }
  return locks;
}
