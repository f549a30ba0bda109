import { readFileSync } from 'node:fs';
import { freemem } from 'node:os';
import { join } from 'node:path';
import { findOwnGroups } from '../processes/own-groups.ts';

/**
 * Returns the bytes that programs of the sandbox can still allocate before one is killed. File caches do not count as
 * used. Without a control group, as in gVisor, it is the machine's free memory: there the machine is the sandbox.
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
