import { BlockList, isIP } from 'node:net';
import { CLOSED_RANGES } from '@cloche/protocol';

/** IPv6 has hosts of the internet only here, except for the closed parts below. */
const GLOBAL_IPV6 = '2000::/3';
/** Protocol assignments with Teredo, documentation, and 6to4, which leads to IPv4. */
const CLOSED_IPV6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'] as const;

export interface TargetOptions {
  /** Whether `http` URLs are permitted beside `https`. */
  readonly allowHttp: boolean;
  /** Ranges that are permitted although they are closed, such as `10.1.0.0/16`. */
  readonly allowCidrs: readonly string[];
  /** Ranges that are closed in addition. They win over the permitted ones. */
  readonly denyCidrs: readonly string[];
}

/**
 * Decides which URLs and addresses webhooks may reach.
 *
 * SECURITY: webhooks are requests that clients have the server make. Without this, they would reach the service itself,
 * the operator's networks and the metadata of clouds; "what a webhook may not reach" in webhook-sender.test.ts.
 */
export class TargetGuard {
  readonly #closed = blockList(CLOSED_RANGES);
  readonly #closedIpv6 = blockList(CLOSED_IPV6);
  readonly #globalIpv6 = blockList([GLOBAL_IPV6]);
  readonly #allowed: BlockList;
  readonly #denied: BlockList;
  readonly #allowHttp: boolean;

  constructor({ allowHttp, allowCidrs, denyCidrs }: TargetOptions) {
    this.#allowHttp = allowHttp;
    this.#allowed = blockList(allowCidrs);
    this.#denied = blockList(denyCidrs);
  }

  /** Returns what is wrong with the URL of a webhook, or undefined. A host's addresses are checked at each delivery. */
  problemWith(text: string): string | undefined {
    const url = URL.parse(text);
    if (!url) return 'must be a URL such as https://hooks.example.com/cloche';
    if (url.protocol === 'http:' && !this.#allowHttp) return 'must be an https URL; the operator does not permit http';
    if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'must be an https URL';
    if (url.username !== '' || url.password !== '')
      return 'must have no user and no password; verify signatures instead';
    const host = hostOf(url);
    if (isIP(host) > 0 && !this.permits(host)) return 'must have a public address; the operator can permit others';
    return undefined;
  }

  /** Returns whether webhooks may connect to an address. */
  permits(address: string): boolean {
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    if (this.#denied.check(address, family)) return false;
    if (this.#allowed.check(address, family)) return true;
    if (family === 'ipv4') return isIP(address) === 4 && !this.#closed.check(address, family);
    return this.#globalIpv6.check(address, family) && !this.#closedIpv6.check(address, family);
  }
}

/** Parses ranges that are separated by commas. @throws Error that names the setting and what is no range. */
export function parseRanges(setting: string, text: string): string[] {
  const ranges = text.split(',').map((range) => range.trim());
  return ranges.filter(Boolean).map((range) => {
    const [address = '', length, ...rest] = range.split('/');
    const longest = isIP(address) === 6 ? 128 : 32;
    const isLength = length === undefined || (/^\d{1,3}$/.test(length) && Number(length) <= longest);
    if (isIP(address) === 0 || !isLength || rest.length > 0)
      throw new Error(`${setting}: not a range of addresses: ${range}`);
    return range;
  });
}

/** Returns the host name, or the address without the brackets of IPv6. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1');
}

function blockList(cidrs: readonly string[]): BlockList {
  const list = new BlockList();
  for (const cidr of cidrs) {
    const [address = '', length] = cidr.split('/');
    const isIpv6 = isIP(address) === 6;
    list.addSubnet(address, Number(length ?? (isIpv6 ? 128 : 32)), isIpv6 ? 'ipv6' : 'ipv4');
  }
  return list;
}
