import { Agent, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { CALLER_FIELD } from '@cloche/node-support';
import { Cloche } from '@cloche/sdk';

/** Keeps connections open between requests, because most clients send one request after another. */
const agent = new Agent({ keepAlive: true });

/**
 * Returns a client of this server's `/v1`. By default it does not retry, because the clients that it serves do.
 *
 * @param fields of the request that it serves, with the one that names its client to `/v1`
 */
export function loopbackClient(
  url: string,
  apiKey: string,
  fields: IncomingHttpHeaders,
  options: { readonly maxRetries?: number } = { maxRetries: 0 },
): Cloche {
  return new Cloche({ url, apiKey, ...options, fetch: loopbackFetchFor(fields) });
}

/** Returns a `fetch` that sends requests to this server's `/v1` on behalf of the client of a request with these fields. */
export function loopbackFetchFor(fields: IncomingHttpHeaders): typeof fetch {
  const caller = fields[CALLER_FIELD];
  if (typeof caller !== 'string') return loopbackFetch;
  return (input, init = {}) => {
    const headers = new Headers(init.headers);
    headers.set(CALLER_FIELD, caller);
    return loopbackFetch(input, { ...init, headers });
  };
}

/**
 * Sends a request to this server's `/v1`, with the signature of `fetch` but less processor time. The response has only
 * the properties that the SDK uses. Requests whose body is a stream are sent by `fetch`.
 */
const loopbackFetch: typeof fetch = (input, init = {}) => {
  const { body, signal } = init;
  if (typeof input !== 'string' || !isWhole(body)) return fetch(input, init);
  return new Promise((resolve, reject) => {
    const headers = Object.fromEntries(new Headers(init.headers));
    const sent = request(input, { agent, method: init.method ?? 'GET', headers, ...(signal && { signal }) });
    sent.on('error', (error) => reject(signal?.aborted ? signal.reason : error));
    sent.once('response', (answer) => resolve(responseOf(answer)));
    sent.end(body ?? undefined);
  });
};

/** Returns whether a body is sent at once. */
function isWhole(body: RequestInit['body']): body is string | Uint8Array<ArrayBuffer> | null | undefined {
  return body == null || typeof body === 'string' || body instanceof Uint8Array;
}

function responseOf(answer: IncomingMessage): Response {
  const status = answer.statusCode ?? 0;
  const { headers } = answer;
  let body: ReadableStream | undefined;
  const response = {
    status,
    ok: status >= 200 && status < 300,
    headers: {
      get: (name: string) => {
        const value = headers[name.toLowerCase()];
        return Array.isArray(value) ? value.join(', ') : (value ?? null);
      },
    },
    get body() {
      body ??= Readable.toWeb(answer) as ReadableStream;
      return body;
    },
    text: () => text(answer),
  };
  // Sound: the SDK uses no other properties of a response.
  return response as unknown as Response;
}
