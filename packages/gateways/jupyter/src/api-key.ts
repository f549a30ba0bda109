import { type KeyedRequest, keyFrom, queryToken, token } from '@cloche/kit';

/** Where `/v1` answers, and the key of a client. */
export interface ApiAccess {
  readonly url: string;
  readonly apiKey: string;
  /** Sends requests to `/v1` on behalf of the client. */
  readonly fetch: typeof fetch;
}

/** Returns the key of a request. @throws GatewayError 401 */
export function apiKeyOf(request: KeyedRequest): string {
  return keyFrom(request, [token, queryToken], 'send `Authorization: token` with a key of Cloche.');
}
