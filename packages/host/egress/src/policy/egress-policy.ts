import { coversHost, type HostEntry, parseHostEntry } from '@cloche/contract';
import type { GatedSandbox } from '@cloche/protocol';
import type { Host } from './host-name.ts';

/** A policy with parsed entries. */
export interface EgressPolicy {
  mode: GatedSandbox['policy']['mode'];
  entries: readonly HostEntry[];
}

/** Parses a policy. Throws for an invalid entry, so that no policy is enforced partially. */
export function readPolicy({ mode, hosts = [] }: GatedSandbox['policy']): EgressPolicy {
  const entries = hosts.map((text) => {
    const result = parseHostEntry(text);
    if (!result.ok) throw new Error(`host "${text}" ${result.reason}`);
    return result.entry;
  });
  return { mode, entries };
}

/** Returns whether HTTP, HTTPS and lookups to a host are permitted. */
export function permitsHost({ mode, entries }: EgressPolicy, host: Host): boolean {
  if (mode === 'deny-all') return false;
  return matchesAny(entries, host) === (mode === 'allowlist');
}

/** Returns whether a connection may go to an address that a permitted name has resolved to. */
export function permitsAddressOfName({ mode, entries }: EgressPolicy, address: string): boolean {
  return mode === 'allowlist' || (mode === 'denylist' && !matchesAny(entries, { kind: 'ipv4', address }));
}

/** Ports that only serve HTTP or HTTPS. Traffic there that looks like another protocol is disguised HTTP. */
const HTTP_PORTS: readonly number[] = [80, 443];

/** Returns whether traffic that is neither HTTP nor HTTPS may go to a host and port. */
export function permitsRaw(policy: EgressPolicy, { host, port }: { host: Host; port: number }): boolean {
  return policy.mode === 'denylist' && permitsHost(policy, host) && !HTTP_PORTS.includes(port);
}

function matchesAny(entries: readonly HostEntry[], host: Host): boolean {
  return entries.some((entry) => coversHost(entry, host));
}
