import { isIP } from 'node:net';
import { WEBHOOK_URL_PATTERN } from '@cloche/contract';
import { OwnAddresses } from '@cloche/node-support';
import { ClosedAddresses, type OperatorRanges } from '@cloche/settings';

const URL_FORM = new RegExp(WEBHOOK_URL_PATTERN);

/** `allowCidrs` permits ranges that are closed, also addresses of this host. */
export interface TargetOptions extends OperatorRanges {
  /** Whether `http` URLs are permitted beside `https`. */
  readonly allowHttp: boolean;
}

/**
 * Decides which URLs and addresses webhooks may reach.
 *
 * SECURITY: webhooks are requests that clients have the server make. Without this, they would reach the service itself,
 * the operator's networks and the metadata of clouds; "what a webhook may not reach" in webhook-sender.test.ts.
 */
export class TargetGuard {
  readonly #closed: ClosedAddresses;
  readonly #allowHttp: boolean;

  /** @param own addresses of this host, whose firewalls do not see what it sends to itself */
  constructor({ allowHttp, ...ranges }: TargetOptions, own: Pick<OwnAddresses, 'has'> = new OwnAddresses()) {
    this.#allowHttp = allowHttp;
    this.#closed = new ClosedAddresses({ ranges, isOwn: (address) => own.has(address) });
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
    // Parsing repairs what the contract does not allow: a missing `//`, and whitespace.
    if (!URL_FORM.test(text)) return 'must be a URL such as https://hooks.example.com/cloche';
    return undefined;
  }

  /** Returns whether webhooks may connect to an address. */
  permits(address: string): boolean {
    return !this.#closed.isClosed(address);
  }
}

/** Returns the host name, or the address without the brackets of IPv6. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1');
}
