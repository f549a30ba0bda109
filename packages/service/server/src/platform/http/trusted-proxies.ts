import { inRanges } from '@cloche/settings';

/** Whether to believe what a sender of a request appended to `X-Forwarded-For`. The hop of the connection is 0. */
export type TrustsProxy = (address: string, hop: number) => boolean;

/**
 * Trusts the load balancer of this host, if there is one, and proxies in the given ranges. Behind others, the address of
 * a client is that of the last proxy. Undefined if there is no proxy to trust, so that no request looks for one.
 */
export function trustedProxies(isBalanced: boolean, ranges: readonly string[]): TrustsProxy | undefined {
  if (!isBalanced && ranges.length === 0) return undefined;
  const isTrusted = inRanges(ranges);
  return (address, hop) => (isBalanced && hop === 0) || isTrusted(address);
}
