import { basicPassword, bearer, type KeyedRequest, keyFrom, xApiKey } from '@cloche/kit';

/** Returns the API key of a request. @throws GatewayError 401 */
export function keyOf(request: KeyedRequest): string {
  return keyFrom(request, [xApiKey, bearer, basicPassword], 'put it into the URL, as in http://key:KEY@host/.');
}
