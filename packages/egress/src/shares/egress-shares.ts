/** How egress divides what its process has among the sandboxes. */
import { readFileSync } from 'node:fs';
import { FairShare } from './fair-share.ts';

/** Descriptors of the program itself: its log, its listening sockets and Node's files. */
const OWN_DESCRIPTORS = 256;

/** Each holds one descriptor for each place, a look-up by connection two: one to the sandbox, one to the resolver. */
export const MOST = {
  connections: { total: 8192, perSource: 256 },
  /** As many as requests at once, and connections that are kept for the next request or still being opened. */
  serverConnections: { total: 8192, perSource: 320 },
  lookups: { total: 2048, perSource: 128 },
  lookupConnections: { total: 512, perSource: 16 },
} as const;
/** The number of DNS relays: one for gated sandboxes, one for all others. */
const RELAYS = 2;
const MOST_DESCRIPTORS =
  MOST.connections.total +
  MOST.serverConnections.total +
  RELAYS * (MOST.lookups.total + 2 * MOST.lookupConnections.total);

export interface EgressShares {
  /** From sandboxes to the gateway. */
  connections: FairShare;
  /** From the gateway to servers, and look-ups that lead to one. */
  serverConnections: FairShare;
}

export interface LookupShares {
  datagrams: FairShare;
  connections: FairShare;
}

/** How much of each total the process may hold open: all of it, or the same part of each. */
export function affordable(descriptorLimit: number): number {
  return Math.min(1, Math.max(0, descriptorLimit - OWN_DESCRIPTORS) / MOST_DESCRIPTORS);
}

export function egressShares(part = 1): EgressShares {
  return {
    connections: share(MOST.connections, part),
    serverConnections: share(MOST.serverConnections, part),
  };
}

/** For one relay. */
export function lookupShares(part = 1): LookupShares {
  return { datagrams: share(MOST.lookups, part), connections: share(MOST.lookupConnections, part) };
}

/** The bound of this process, which Node raises to what it may be when it starts. */
export function descriptorLimit(): number {
  const [, soft] = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  return soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft);
}

function share({ total, perSource }: { total: number; perSource: number }, part: number): FairShare {
  return new FairShare({ total: Math.floor(total * part), perSource });
}
