import type { IncomingHttpHeaders } from 'node:http';
import { GatewayError } from '@cloche/kit';

/**
 * Returns the API key of a request: `X-Api-Key`, a bearer token, or the password of Basic authentication, which HTTP
 * clients send for a URL such as `http://key:clk_…@host/`. A user name without a password counts as the key.
 */
export function keyOf({ headers }: { readonly headers: IncomingHttpHeaders }): string {
  const own = headers['x-api-key'];
  if (typeof own === 'string' && own !== '') return own;
  const [, scheme, value] = /^(Bearer|Basic) +(\S.*)$/i.exec(headers.authorization ?? '') ?? [];
  const key = scheme?.toLowerCase() === 'basic' && value !== undefined ? passwordOf(value) : value;
  if (!key) throw new GatewayError(401, 'The API key is missing: put it into the URL, as in http://key:KEY@host/.');
  return key;
}

function passwordOf(encoded: string): string {
  const text = Buffer.from(encoded, 'base64').toString();
  const colon = text.indexOf(':');
  return colon === -1 ? text : text.slice(colon + 1) || text.slice(0, colon);
}
