import type { HostWarning } from '@cloche/protocol';
import type { FirewallChain } from './firewall-chains.ts';
import { type BlockedHook, firewallRemedy } from './firewall-remedy.ts';
import type { ClassReachability, Reachability } from './network-probe.ts';
import type { ProbedClass } from './probe-rules.ts';

const FIREWALL = 'A firewall of this host drops';

/** The warning for each class of sandboxes and each hook where a firewall drops its packets. */
const BLOCKED = [
  {
    check: 'sandbox_dns',
    linkClass: 'open',
    hook: 'input',
    passages: ['resolver', 'connections'],
    message: `${FIREWALL} DNS queries of sandboxes to the gateway: sandboxes with the network policy \`unrestricted\` resolve no names.`,
  },
  {
    check: 'sandbox_gateway',
    linkClass: 'gated',
    hook: 'input',
    passages: ['resolver', 'connections'],
    message: `${FIREWALL} packets of sandboxes to the gateway: sandboxes with an allowlist, a denylist or secrets have no network.`,
  },
  {
    check: 'sandbox_forwarding',
    linkClass: 'open',
    hook: 'forward',
    passages: ['outgoing', 'replies'],
    message: `${FIREWALL} packets that it forwards for sandboxes: sandboxes with the network policy \`unrestricted\` have no internet.`,
  },
  {
    check: 'sandbox_datagrams',
    linkClass: 'gated',
    hook: 'forward',
    passages: ['outgoing', 'replies'],
    message: `${FIREWALL} packets that it forwards for sandboxes: sandboxes with a denylist have no UDP and no ICMP.`,
  },
] as const satisfies {
  check: HostWarning['check'];
  linkClass: ProbedClass;
  hook: BlockedHook;
  passages: (keyof ClassReachability)[];
  message: string;
}[];

const NO_ROUTE: HostWarning = {
  check: 'ipv4_route',
  message: 'This host has no IPv4 default route: sandboxes have only IPv4, so they have no internet.',
  remedy: 'Give this host an IPv4 address with a default route, or a CLAT (464XLAT) where the network has only IPv6.',
};

const NOT_FORWARDING: HostWarning = {
  check: 'sandbox_forwarding',
  message: 'This host forwards no IPv4 packets: sandboxes have no internet.',
  remedy: 'Run `sysctl -w net.ipv4.ip_forward=1`.',
};

export interface HostNetwork {
  reachability: Reachability;
  /** Whether `net.ipv4.ip_forward` is on, or is switched on before sandboxes start. */
  forwards: boolean;
  chains: readonly FirewallChain[];
}

/** Returns what keeps sandboxes from the network, each with what to do about it; empty when nothing does. */
export function networkWarnings({ reachability, forwards, chains }: HostNetwork): HostWarning[] {
  const warnings: HostWarning[] = reachability.hasRoute ? [] : [NO_ROUTE];
  if (!forwards) warnings.push(NOT_FORWARDING);
  for (const { check, linkClass, hook, passages, message } of BLOCKED) {
    // The kernel drops packets before a firewall sees them.
    if (!forwards && hook === 'forward') continue;
    if (!passages.some((passage) => reachability[linkClass][passage] === 'blocked')) continue;
    warnings.push({ check, message, remedy: firewallRemedy(chains, hook, linkClass) });
  }
  return warnings;
}

/** Returns whether all that could be measured on a host with a running egress was measured. */
export function isComplete({ open, gated, hasRoute }: Reachability): boolean {
  const needed = (passages: ClassReachability) => [passages.resolver, passages.connections];
  return hasRoute && ![...needed(open), ...needed(gated)].includes('unknown');
}
