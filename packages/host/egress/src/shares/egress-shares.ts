/** Divides the capacity of the egress process among the sandboxes. */
import { readFileSync } from 'node:fs';
import { FairShare } from './fair-share.ts';

/** Descriptors of the program itself: its log, its listening sockets and Node's files. */
const OWN_DESCRIPTORS = 256;

/** Most places of each kind. A place takes one descriptor; a TCP lookup takes two, for the sandbox and the resolver. */
export const LIMITS = {
  connections: { total: 8192, perSource: 256 },
  /** Per source: all concurrent requests, and connections that are kept for reuse or are being opened. */
  serverConnections: { total: 8192, perSource: 320 },
  lookups: { total: 2048, perSource: 128 },
  lookupConnections: { total: 512, perSource: 16 },
} as const;
/** Number of DNS relays: one for gated sandboxes, one for all others. */
const RELAYS = 2;
const MAX_DESCRIPTORS =
  LIMITS.connections.total +
  LIMITS.serverConnections.total +
  RELAYS * (LIMITS.lookups.total + 2 * LIMITS.lookupConnections.total);

export interface EgressShares {
  /** Connections from sandboxes to the gateway. */
  connections: FairShare;
  /** Connections from the gateway to servers, including the lookups for them. */
  serverConnections: FairShare;
}

export interface LookupShares {
  datagrams: FairShare;
  connections: FairShare;
}

/** Returns which fraction of each total the process can hold open, at most 1. */
export function affordableFraction(descriptorLimit: number): number {
  return Math.min(1, Math.max(0, descriptorLimit - OWN_DESCRIPTORS) / MAX_DESCRIPTORS);
}

export function egressShares(part = 1): EgressShares {
  return {
    connections: share(LIMITS.connections, part),
    serverConnections: share(LIMITS.serverConnections, part),
  };
}

/** Returns the shares of one relay. */
export function lookupShares(part = 1): LookupShares {
  return { datagrams: share(LIMITS.lookups, part), connections: share(LIMITS.lookupConnections, part) };
}

/** Returns the process's descriptor limit, which Node raises to the hard limit when it starts. */
export function descriptorLimit(): number {
  const [, soft] = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  return soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft);
}

function share({ total, perSource }: { total: number; perSource: number }, part: number): FairShare {
  return new FairShare({ total: Math.floor(total * part), perSource });
}
