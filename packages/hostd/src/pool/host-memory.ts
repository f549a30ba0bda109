import { readFileSync } from 'node:fs';

/** What the host's memory leaves for what nobody has asked for yet. */
const KEPT_FREE_SHARE = 0.15;
const KEPT_FREE_BYTES = 512 * 1024 * 1024;

/** Whether there is memory for instances that are launched ahead: sandboxes that live come first. */
export function hasMemoryToSpare(meminfo = readFileSync('/proc/meminfo', 'utf8')): boolean {
  const available = bytesOf(meminfo, 'MemAvailable');
  return available > Math.max(KEPT_FREE_BYTES, bytesOf(meminfo, 'MemTotal') * KEPT_FREE_SHARE);
}

function bytesOf(meminfo: string, field: string): number {
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(meminfo)?.[1] ?? 0) * 1024;
}
