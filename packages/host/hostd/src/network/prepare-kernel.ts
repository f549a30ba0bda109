import { readFileSync, writeFileSync } from 'node:fs';
import { SLOT_COUNT } from '../addressing/address-plan.ts';
import { errorCode } from '../linux/libc.ts';
import { MAX_TRACKED_ENTRIES } from './flow-limits.ts';

const IP_FORWARD = '/proc/sys/net/ipv4/ip_forward';
const MAX_NEIGHBOURS = '/proc/sys/net/ipv4/neigh/default/gc_thresh3';
const MAX_TRACKED = '/proc/sys/net/netfilter/nf_conntrack_max';
/** Entries for 128 sandboxes that each hold their maximum, at about 400 bytes an entry. */
const TRACKED_ENTRIES = 128 * MAX_TRACKED_ENTRIES;

/** Sets what the network of sandboxes needs of the kernel. Idempotent. */
export function prepareKernel(): void {
  // Documented in docs/operating/firewalls.md: other forwarded traffic is up to the host's own firewall.
  if (readFileSync(IP_FORWARD, 'utf8').trim() !== '1') writeFileSync(IP_FORWARD, '1');
  // Every sandbox is a neighbour: by default a host knows 1024, and beyond that its own connections fail as well.
  raise(MAX_NEIGHBOURS, SLOT_COUNT);
  raise(MAX_TRACKED, TRACKED_ENTRIES);
}

/**
 * Raises a limit of the kernel that is too low. In a network namespace of its own, such as a container's, the limits of
 * the whole machine are absent or cannot be written: then its operator raises them, and `cloche doctor` tells which.
 */
function raise(file: string, atLeast: number): void {
  try {
    if (Number(readFileSync(file, 'utf8')) < atLeast) writeFileSync(file, String(atLeast));
  } catch (error) {
    if (!['ENOENT', 'EACCES', 'EPERM', 'EROFS'].includes(errorCode(error) ?? '')) throw error;
  }
}
