import { readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';

/** The kernel's own count of such objects, of which each lock is one. */
const CACHE = 'file_lock_cache';
/** More than these are as many: what is beyond is not read. */
const MOST = 1_000_000;

/** Locks on files, of all processes of the host. Undefined where this kernel does not say. */
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

/** Locks that a process holds; none if it has ended. */
export async function locksHeldBy(pid: number): Promise<number> {
  const folder = `/proc/${pid}/fdinfo`;
  let locks = 0;
  for (const fd of await readdir(folder).catch(() => [])) {
    const info = await readFile(`${folder}/${fd}`, 'latin1').catch(() => '');
    locks += info.split('\nlock:').length - 1;
    if (locks > MOST) break;
  }
  return locks;
}
