import { readFileSync } from 'node:fs';
import { freemem } from 'node:os';
import { join } from 'node:path';
import { findOwnGroups } from '../processes/own-groups.ts';

/**
 * In bytes, what the programs of this sandbox may still have of memory before one of them is killed for it: caches of
 * files make room. What the machine has where they are in no group of their own, as in gVisor, whose machine is the sandbox.
 */
export function freeMemory(): number {
  const free = findOwnGroups('memory').flatMap(({ version, whole }) => {
    const group = join(whole, 'kernels');
    const [limit, used] = version === 2 ? ['memory.max', 'anon'] : ['memory.limit_in_bytes', 'total_rss'];
    try {
      const bytes = new RegExp(`^${used} (\\d+)$`, 'm').exec(readFileSync(join(group, 'memory.stat'), 'utf8'))?.[1];
      return Number(readFileSync(join(group, limit), 'utf8')) - Number(bytes);
    } catch {
      // On a hybrid host another hierarchy counts memory.
      return [];
    }
  });
  return Math.min(freemem(), ...free.filter(Number.isFinite));
}
