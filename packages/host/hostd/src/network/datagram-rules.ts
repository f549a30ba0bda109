import { SANDBOX_CIDR } from '../addressing/address-plan.ts';
import { QUIC_MATCHES } from './quic-match.ts';

/** A gated sandbox with a denylist: the kernel forwards its datagrams and ICMP echoes. */
export interface DatagramSandbox {
  address: string;
  /** Addresses that its policy denies. */
  denied: readonly string[];
}

/** Names of the nft sets. An unlisted sandbox may send no datagrams, so an emptied set blocks more. */
const SENDERS = 'datagram_senders';
const DENIED = 'denied_to_senders';

export function datagramSets(sandboxes: readonly DatagramSandbox[]): string {
  return `
  set ${SENDERS} { type ipv4_addr; ${elements(sandboxes.map(({ address }) => address))} }
  set ${DENIED} { type ipv4_addr . ipv4_addr; ${elements(sandboxes.flatMap(pairs))} }`;
}

/** Returns commands that add a sandbox to the sets of a table, or delete it. */
export function datagramCommands(verb: 'add' | 'delete', table: string, sandbox: DatagramSandbox): string {
  const denied = pairs(sandbox);
  const lines = [`${verb} element inet ${table} ${SENDERS} { ${sandbox.address} }`];
  if (denied.length > 0) lines.push(`${verb} element inet ${table} ${DENIED} { ${denied.join(', ')} }`);
  return lines.join('\n');
}

/**
 * Returns the chains for forwarded traffic from and to gated sandboxes. TCP and DNS queries reach these chains only
 * while the rules that redirect them to egress are missing. Other chains jump here for traffic of the gated links.
 */
export function datagramChains(): string {
  return `
  chain from_gated {
    ip saddr != @${SENDERS} goto refused
    meta l4proto != { udp, icmp } goto refused
    meta l4proto icmp icmp type != echo-request ct state != related goto refused
    udp dport 53 goto refused
    ip frag-off & 0x1fff != 0 goto refused
    ip saddr . ip daddr @${DENIED} goto refused
    ${QUIC_MATCHES.map((match) => `${match} goto refused`).join('\n    ')}
    ip daddr ${SANDBOX_CIDR} goto refused
    ip daddr @closed_by_operator goto refused
    ip daddr @opened accept
    ip daddr @closed goto refused
  }

  chain to_gated {
    ip daddr != @${SENDERS} drop
    meta l4proto != { udp, icmp } drop
    ct state != { established, related } drop
    ${QUIC_MATCHES.map((match) => `${match} drop`).join('\n    ')}
  }`;
}

function pairs({ address, denied }: DatagramSandbox): string[] {
  return denied.map((there) => `${address} . ${there}`);
}

function elements(members: readonly string[]): string {
  return members.length === 0 ? '' : `elements = { ${members.join(', ')} }`;
}
