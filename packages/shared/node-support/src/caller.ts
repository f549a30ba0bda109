import type { IncomingHttpHeaders } from 'node:http';

/**
 * Field in which a protocol beside `/v1` names its client to `/v1`. The server sets it in each request that it gives to
 * such a protocol, signed, and believes no other.
 */
export const CALLER_FIELD = 'cloche-caller';

/** Returns a `fetch` that sends requests to `/v1` on behalf of the client of a request with these fields. */
export function fetchFor(fields: IncomingHttpHeaders, send: typeof fetch = fetch): typeof fetch {
  const caller = fields[CALLER_FIELD];
  if (typeof caller !== 'string') return send;
  return (input, init = {}) => {
    const headers = new Headers(init.headers);
    headers.set(CALLER_FIELD, caller);
    return send(input, { ...init, headers });
  };
}
