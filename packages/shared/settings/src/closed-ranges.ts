import { isIP } from 'node:net';
import { inRanges, parseRanges } from './address-ranges.ts';

/**
 * Addresses that no sandbox and no webhook may reach in any mode: the operator's networks, and ranges without internet
 * hosts. hostd blocks them for traffic that the kernel routes, egress for traffic that it proxies, the server for
 * webhooks.
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

/** IPv6 has hosts of the internet only here, except for the closed parts below. */
const GLOBAL_IPV6 = '2000::/3';
/** Protocol assignments with Teredo, documentation, and 6to4, which leads to IPv4. */
const CLOSED_IPV6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'] as const;

/** The operator's changes to the closed ranges, of both families. A range in both lists is closed. */
export interface OperatorRanges {
  readonly allowCidrs: readonly string[];
  readonly denyCidrs: readonly string[];
}

type RangeSettings = { readonly [Name in `CLOCHE_EGRESS_${'ALLOW' | 'DENY'}_CIDRS`]?: string | undefined };

/**
 * Parses the operator's ranges.
 * @throws Error that names the invalid setting.
 */
export function readOperatorRanges(settings: RangeSettings): OperatorRanges {
  const read = (name: keyof RangeSettings) => parseRanges(`configuration: ${name}`, settings[name] ?? '');
  return { allowCidrs: read('CLOCHE_EGRESS_ALLOW_CIDRS'), denyCidrs: read('CLOCHE_EGRESS_DENY_CIDRS') };
}

export interface ClosedAddressesOptions {
  readonly ranges: OperatorRanges;
  /** Returns whether an address is closed although the operator permits it. */
  readonly isNever?: (address: string) => boolean;
  /** Returns whether an address belongs to this host. The operator can permit it. */
  readonly isOwn?: (address: string) => boolean;
}

/**
 * Decides by the address that a connection is about to go to. This stops names that lead to closed addresses, and names
 * whose address changes between two look-ups. A text that is no address is closed.
 */
export class ClosedAddresses {
  readonly #isDenied: (address: string) => boolean;
  readonly #isAllowed: (address: string) => boolean;
  readonly #isNever: (address: string) => boolean;
  readonly #isOwn: (address: string) => boolean;

  constructor({ ranges, isNever = () => false, isOwn = () => false }: ClosedAddressesOptions) {
    this.#isDenied = inRanges(ranges.denyCidrs);
    this.#isAllowed = inRanges(ranges.allowCidrs);
    this.#isNever = isNever;
    this.#isOwn = isOwn;
  }

  isClosed(address: string): boolean {
    if (this.#isNever(address) || this.#isDenied(address)) return true;
    if (this.#isAllowed(address)) return false;
    return this.#isOwn(address) || !isOfInternet(address);
  }
}

const isClosedIpv4 = inRanges(CLOSED_RANGES);
const isClosedIpv6 = inRanges(CLOSED_IPV6);
const isGlobalIpv6 = inRanges([GLOBAL_IPV6]);

/** Returns whether hosts of the internet can have the address. */
function isOfInternet(address: string): boolean {
  const family = isIP(address);
  return family === 4 ? !isClosedIpv4(address) : family === 6 && isGlobalIpv6(address) && !isClosedIpv6(address);
}
