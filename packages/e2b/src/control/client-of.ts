import type { Cloche } from '@cloche/sdk';
import type { FastifyRequest } from 'fastify';
import type { E2bDeps } from '../e2b-deps.ts';
import { E2bError } from '../e2b-error.ts';
import { loopbackClient } from '../loopback-client.ts';

/** Returns the key of a request. @throws E2bError 401 */
export function keyOf({ headers }: Pick<FastifyRequest, 'headers'>): string {
  const key = headers['x-api-key'];
  const bearer = headers.authorization?.replace(/^Bearer /i, '');
  const found = typeof key === 'string' && key !== '' ? key : bearer;
  if (!found) throw new E2bError(401, 'The API key is missing: set E2B_API_KEY to a key of Cloche.');
  return found;
}

/** Returns a client of `/v1` with the key of a request. */
export function clientOf(request: Pick<FastifyRequest, 'headers'>, { apiUrl }: E2bDeps): Cloche {
  return loopbackClient(apiUrl(), keyOf(request));
}
