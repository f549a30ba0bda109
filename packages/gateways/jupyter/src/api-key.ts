import type { IncomingMessage } from 'node:http';
import { GatewayError } from '@cloche/kit';

/** Where `/v1` answers, and the key of a client. */
export interface ApiAccess {
  readonly url: string;
  readonly apiKey: string;
  /** Sends requests to `/v1` on behalf of the client. */
  readonly fetch: typeof fetch;
}

/**
 * Returns the key of a request: `Authorization: token` or `Bearer`, or the parameter `token`, which browsers send
 * because their WebSockets have no headers.
 *
 * @throws GatewayError 401 if the request has no key
 */
export function apiKeyOf({ headers, url = '' }: IncomingMessage): string {
  const header = /^(?:token|bearer) +([\x21-\x7e]+)$/i.exec(headers.authorization ?? '')?.[1];
  const apiKey = header ?? new URLSearchParams(url.split('?', 2)[1]).get('token') ?? '';
  if (!/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new GatewayError(401, 'The API key is missing: send `Authorization: token` with a key of Cloche.');
  }
  return apiKey;
}
