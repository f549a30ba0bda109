import { readFileSync } from 'node:fs';

/** Host memory that launches ahead leave free: this share, and at least this many bytes. */
const KEPT_FREE_SHARE = 0.15;
const KEPT_FREE_BYTES = 512 * 1024 * 1024;

/** Returns whether there is memory to launch instances ahead; running sandboxes have priority. */
export function hasMemoryToSpare(meminfo = readFileSync('/proc/meminfo', 'utf8')): boolean {
  const available = bytesOf(meminfo, 'MemAvailable');
  return available > Math.max(KEPT_FREE_BYTES, bytesOf(meminfo, 'MemTotal') * KEPT_FREE_SHARE);
}

function bytesOf(meminfo: string, field: string): number {
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(meminfo)?.[1] ?? 0) * 1024;
}
