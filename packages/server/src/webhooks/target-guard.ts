import { isIP } from 'node:net';
import { CLOSED_RANGES } from '@cloche/protocol';
import { inRanges } from '../base/address-ranges.ts';

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
  readonly #isClosed = inRanges(CLOSED_RANGES);
  readonly #isClosedIpv6 = inRanges(CLOSED_IPV6);
  readonly #isGlobalIpv6 = inRanges([GLOBAL_IPV6]);
  readonly #isAllowed: (address: string) => boolean;
  readonly #isDenied: (address: string) => boolean;
  readonly #allowHttp: boolean;

  constructor({ allowHttp, allowCidrs, denyCidrs }: TargetOptions) {
    this.#allowHttp = allowHttp;
    this.#isAllowed = inRanges(allowCidrs);
    this.#isDenied = inRanges(denyCidrs);
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
    if (this.#isDenied(address)) return false;
    if (this.#isAllowed(address)) return true;
    if (isIP(address) === 4) return !this.#isClosed(address);
    return this.#isGlobalIpv6(address) && !this.#isClosedIpv6(address);
  }
}

/** Returns the host name, or the address without the brackets of IPv6. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1');
}
