import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/** Proxy that adds a key to each request, for clients that can send no header of their own. */
export interface BearerProxy extends AsyncDisposable {
  /** Port on `localhost`. */
  readonly port: number;
}

/**
 * Starts a proxy to the service at `url`. It passes on every header, `Host` and `Origin` too.
 *
 * @param rewrite changes the JSON of a request; by default it is passed on as it is
 */
export async function startBearerProxy(
  url: string,
  apiKey: string,
  rewrite?: (message: unknown) => unknown,
): Promise<BearerProxy> {
  const { hostname, port } = new URL(url);
  const server = createServer(async (incoming, outgoing) => {
    const body = rewrite && incoming.method === 'POST' ? await rewritten(incoming, rewrite) : undefined;
    const { 'content-length': length, ...fields } = incoming.headers;
    const sized = body
      ? { 'content-length': String(body.length) }
      : length !== undefined && { 'content-length': length };
    const headers = { ...fields, ...sized, authorization: `Bearer ${apiKey}` };
    const passed = request({ hostname, port, path: incoming.url, method: incoming.method, headers });
    passed.on('response', (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    passed.on('error', () => outgoing.destroy());
    outgoing.on('close', () => passed.destroy());
    if (body) passed.end(body);
    else incoming.pipe(passed);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function rewritten(incoming: IncomingMessage, rewrite: (message: unknown) => unknown): Promise<Buffer> {
  const body = await buffer(incoming);
  return body.length === 0 ? body : Buffer.from(JSON.stringify(rewrite(JSON.parse(body.toString()))));
}
