import { isIP } from 'node:net';

/**
 * What no sandbox reaches in any mode: networks of the operator, and ranges that no host of the internet has. Hostd
 * closes them for what the kernel routes, egress for what it carries itself.
 */
export const CLOSED_RANGES = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  // Azure's host agent, which hands out certificates and secrets of the machine. A public address, answered locally.
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  // Protocol assignments of the IETF; Oracle's metadata is at 192.0.0.192.
  '192.0.0.0/24',
  // Relays of 6to4, which lead into IPv6.
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/4',
  '240.0.0.0/4',
] as const;

/**
 * The operator's changes to the closed ranges. A range in both lists is closed. Sandboxes are always closed to each other.
 */
export interface OperatorRanges {
  allowCidrs: readonly string[];
  denyCidrs: readonly string[];
}

type RangeSettings = { readonly [Name in `CLOCHE_EGRESS_${'ALLOW' | 'DENY'}_CIDRS`]?: string | undefined };

/** @throws what is wrong, by the name of its setting. */
export function readOperatorRanges(settings: RangeSettings): OperatorRanges {
  return {
    allowCidrs: parseCidrs('CLOCHE_EGRESS_ALLOW_CIDRS', settings),
    denyCidrs: parseCidrs('CLOCHE_EGRESS_DENY_CIDRS', settings),
  };
}

/** Comma-separated IPv4 ranges. They end up in the host's firewall, so nothing else passes. */
function parseCidrs(name: keyof RangeSettings, settings: RangeSettings): string[] {
  const cidrs = (settings[name] ?? '').split(',').map((cidr) => cidr.trim());
  return cidrs.filter(Boolean).map((cidr) => {
    const [address = '', length = '32', ...rest] = cidr.split('/');
    const isValid = isIP(address) === 4 && /^\d{1,2}$/.test(length) && Number(length) <= 32 && rest.length === 0;
    if (!isValid) throw new Error(`configuration: ${name}: not an IPv4 range: ${cidr}`);
    return `${address}/${Number(length)}`;
  });
}
