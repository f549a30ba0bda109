import type { IncomingMessage } from 'node:http';

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/**
 * Returns whether a page of another site sent the request. The protocol demands that such requests are refused, since a
 * page can reach the service by a name of its own that it points at the machine (DNS rebinding). Only browsers send
 * `Origin`.
 *
 * @param publicUrl URL at which clients reach the service, if it is configured
 */
export function isForeign({ headers: { origin } }: IncomingMessage, publicUrl: string | undefined): boolean {
  if (origin === undefined) return false;
  const { hostname } = URL.parse(origin) ?? { hostname: '' };
  return !LOOPBACK.test(hostname) && (publicUrl === undefined || hostname !== new URL(publicUrl).hostname);
}
