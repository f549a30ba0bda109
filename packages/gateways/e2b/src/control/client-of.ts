import { bearer, type KeyedRequest, keyFrom, loopbackClient, xApiKey } from '@cloche/kit';
import type { Cloche } from '@cloche/sdk';
import type { FastifyRequest } from 'fastify';
import type { E2bDeps } from '../e2b-deps.ts';

/** Form of E2B's own keys. */
const E2B_FORM = /^e2b_((?:[0-9a-f]{2})+)$/;
const PRINTABLE = /^[\x21-\x7e]+$/;

/** Returns the key of a request. @throws GatewayError 401 */
export function keyOf(request: KeyedRequest): string {
  return plainKey(keyFrom(request, [xApiKey, bearer], 'set E2B_API_KEY to a key of Cloche.'));
}

/**
 * Decodes a key that was written in hexadecimal digits, because some clients send only keys that look like E2B's. A key
 * whose digits do not decode to text is returned unchanged.
 */
function plainKey(key: string): string {
  const [, digits = ''] = E2B_FORM.exec(key) ?? [];
  const text = Buffer.from(digits, 'hex').toString('latin1');
  return PRINTABLE.test(text) ? text : key;
}

/** Returns a client of `/v1` with the key of a request. */
export function clientOf(request: Pick<FastifyRequest, 'headers'>, { apiUrl }: E2bDeps): Cloche {
  return loopbackClient(apiUrl(), keyOf(request), request.headers);
}
