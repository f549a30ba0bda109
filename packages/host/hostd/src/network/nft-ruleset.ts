import { EGRESS_PORTS } from '@cloche/protocol';
import { CLOSED_RANGES, type OperatorRanges } from '@cloche/settings';
import { gatedLinkPrefix, linkPrefix, SANDBOX_CIDR } from '../addressing/address-plan.ts';
import { type DatagramSandbox, datagramChains, datagramSets } from './datagram-rules.ts';
import { flowLimitRules } from './flow-limits.ts';
import { type ProbeAddresses, probePassage, probeTrap } from './probe-rules.ts';

export interface RulesetOptions {
  installationId: string;
  gatewayAddress: string;
  dnsPort: number;
  ranges: OperatorRanges;
  /** The gated sandboxes whose datagrams are forwarded. */
  datagramSandboxes: readonly DatagramSandbox[];
  probe: ProbeAddresses;
}

export function tableName(installationId: string): string {
  return `cloche_${installationId}`;
}

/** Returns the name of hostd's own second table. */
export function guardTableName(installationId: string, pid: number): string {
  return `${tableName(installationId)}_guard_${pid}`;
}

/**
 * Returns the rules of one installation, as one transaction that replaces those of an earlier run. They match link
 * names and not single sandboxes, so they are complete before the first sandbox exists. Only the list of gated
 * sandboxes that may send datagrams changes while sandboxes run.
 *
 * There are two classes of sandboxes. The kernel forwards traffic of open ones. All TCP and look-ups of gated ones end
 * at egress, and datagrams flow for those with a denylist. Everything else is refused.
 */
export function nftRuleset(options: RulesetOptions): string {
  const table = `inet ${tableName(options.installationId)}`;
  return `table ${table}
delete table ${table}
table ${table} {
${redirects(options)}
${filters(options)}
}
`;
}

/**
 * Returns the refusals a second time, in a table that only its owner can flush. It redirects nothing, so while the
 * other table is missing, sandboxes reach less of the network than they should, and never more.
 */
export function nftGuardRuleset(options: RulesetOptions, pid: number): string {
  return `table inet ${guardTableName(options.installationId, pid)} {
  flags owner
${filters(options)}
${probeTrap(options.probe)}
}
`;
}

/** Returns all rules in one table that ends with its owner, for a probe on a host where hostd does not run. */
export function nftPassingRuleset(options: RulesetOptions, pid: number): string {
  return `table inet ${guardTableName(options.installationId, pid)} {
  flags owner
${redirects(options)}
${filters(options)}
${probeTrap(options.probe)}
}
`;
}

/** Returns the chains that redirect traffic. */
function redirects({ installationId, gatewayAddress, dnsPort }: RulesetOptions): string {
  const { fromSandbox, fromGated } = linksOf(installationId);
  return `
  chain resolver {
    type nat hook prerouting priority dstnat; policy accept;
    ${fromSandbox} ip daddr ${gatewayAddress} udp dport 53 dnat ip to ${gatewayAddress}:${dnsPort}
    ${fromSandbox} ip daddr ${gatewayAddress} tcp dport 53 dnat ip to ${gatewayAddress}:${dnsPort}
    ${fromGated} udp dport 53 dnat ip to ${gatewayAddress}:${EGRESS_PORTS.dns}
    ${fromGated} tcp dport 53 dnat ip to ${gatewayAddress}:${EGRESS_PORTS.dns}
    ${fromGated} meta l4proto tcp dnat ip to ${gatewayAddress}:${EGRESS_PORTS.tcp}
  }

  chain leaving {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr ${SANDBOX_CIDR} masquerade
  }`;
}

/** Returns the chains that refuse traffic. */
function filters(options: RulesetOptions): string {
  const { installationId, gatewayAddress, dnsPort, ranges, datagramSandboxes, probe } = options;
  const { fromSandbox, toSandbox, fromGated, toGated } = linksOf(installationId);
  return `
  set closed { type ipv4_addr; flags interval; auto-merge; ${elements(CLOSED_RANGES)} }
  set closed_by_operator { type ipv4_addr; flags interval; auto-merge; ${elements(ranges.denyCidrs)} }
  set opened { type ipv4_addr; flags interval; auto-merge; ${elements(ranges.allowCidrs)} }

  chain spoofing {
    type filter hook prerouting priority raw; policy accept;
    ${fromSandbox} meta nfproto != ipv4 drop
    ${fromSandbox} fib saddr . iif oif missing drop
    ${fromGated} meta nfproto != ipv4 drop
    ${fromGated} fib saddr . iif oif missing drop
  }

${datagramSets(datagramSandboxes)}
${flowLimitRules([fromSandbox, fromGated])}

  chain to_host {
    type filter hook input priority filter; policy accept;
    ${fromSandbox} ip daddr ${gatewayAddress} ct status dnat udp dport ${dnsPort} accept
    ${fromSandbox} ip daddr ${gatewayAddress} ct status dnat tcp dport ${dnsPort} accept
    ${refuse(fromSandbox)}
    ${fromGated} ip daddr ${gatewayAddress} ct status dnat udp dport ${EGRESS_PORTS.dns} accept
    ${fromGated} ip daddr ${gatewayAddress} ct status dnat tcp dport ${EGRESS_PORTS.dns} accept
    ${fromGated} ip daddr ${gatewayAddress} ct status dnat tcp dport ${EGRESS_PORTS.tcp} accept
    ${refuse(fromGated)}
  }

  chain through_host {
    type filter hook forward priority filter; policy accept;
    ${probePassage(probe, { open: { from: fromSandbox, to: toSandbox }, gated: { from: fromGated, to: toGated } })}
    ${fromGated} goto from_gated
    ${fromSandbox} ip daddr ${SANDBOX_CIDR} jump refused
    ${fromSandbox} ip daddr @closed_by_operator jump refused
    ${fromSandbox} ip daddr @opened accept
    ${fromSandbox} ip daddr @closed jump refused
    ${toSandbox} ct state established,related accept
    ${toSandbox} drop
    ${toGated} goto to_gated
  }
${datagramChains()}

  chain refused {
    ${refuse('')}
  }`;
}

function linksOf(installationId: string) {
  const [plain, gated] = [linkPrefix(installationId), gatedLinkPrefix(installationId)];
  return {
    fromSandbox: `iifname "${plain}*"`,
    toSandbox: `oifname "${plain}*"`,
    fromGated: `iifname "${gated}*"`,
    toGated: `oifname "${gated}*"`,
  };
}

function elements(cidrs: readonly string[]): string {
  // Sandboxes have no IPv6.
  const ofIpv4 = cidrs.filter((cidr) => !cidr.includes(':'));
  return ofIpv4.length === 0 ? '' : `elements = { ${ofIpv4.join(', ')} }`;
}

function refuse(from: string): string {
  return `${from} meta l4proto tcp reject with tcp reset\n    ${from} reject with icmpx admin-prohibited`;
}
