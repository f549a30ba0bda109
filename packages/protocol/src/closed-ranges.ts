import { isIP } from 'node:net';

/**
 * Addresses that no sandbox may reach in any mode: the operator's networks, and ranges without internet hosts. hostd
 * blocks them for traffic that the kernel routes, egress for traffic that it proxies.
 */
export const CLOSED_RANGES = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  // Azure's host agent, which serves the machine's certificates and secrets at a public address that is answered
  // locally.
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  // Protocol assignments of the IETF; Oracle Cloud's metadata service is at 192.0.0.192.
  '192.0.0.0/24',
  // 6to4 relays, which lead to IPv6.
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/4',
  '240.0.0.0/4',
] as const;

/**
 * The operator's changes to the closed ranges. A range in both lists is closed. Sandboxes can never reach each other.
 */
export interface OperatorRanges {
  allowCidrs: readonly string[];
  denyCidrs: readonly string[];
}

type RangeSettings = { readonly [Name in `CLOCHE_EGRESS_${'ALLOW' | 'DENY'}_CIDRS`]?: string | undefined };

/**
 * Parses the operator's ranges.
 * @throws Error that names the invalid setting.
 */
export function readOperatorRanges(settings: RangeSettings): OperatorRanges {
  return {
    allowCidrs: parseCidrs('CLOCHE_EGRESS_ALLOW_CIDRS', settings),
    denyCidrs: parseCidrs('CLOCHE_EGRESS_DENY_CIDRS', settings),
  };
}

/** Parses comma-separated IPv4 ranges. Strict, because the ranges become part of the host's firewall rules. */
function parseCidrs(name: keyof RangeSettings, settings: RangeSettings): string[] {
  const cidrs = (settings[name] ?? '').split(',').map((cidr) => cidr.trim());
  return cidrs.filter(Boolean).map((cidr) => {
    const [address = '', length = '32', ...rest] = cidr.split('/');
    const isValid = isIP(address) === 4 && /^\d{1,2}$/.test(length) && Number(length) <= 32 && rest.length === 0;
    if (!isValid) throw new Error(`configuration: ${name}: not an IPv4 range: ${cidr}`);
    return `${address}/${Number(length)}`;
  });
}
