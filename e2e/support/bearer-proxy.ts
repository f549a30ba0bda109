import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Proxy that adds a key to each request, for clients that can send no header of their own. */
export interface BearerProxy extends AsyncDisposable {
  /** Port on `localhost`. */
  readonly port: number;
}

/** Starts a proxy to the service at `url`. It passes on every header, `Host` and `Origin` too. */
export async function startBearerProxy(url: string, apiKey: string): Promise<BearerProxy> {
  const { hostname, port } = new URL(url);
  const server = createServer((incoming, outgoing) => {
    const headers = { ...incoming.headers, authorization: `Bearer ${apiKey}` };
    const passed = request({ hostname, port, path: incoming.url, method: incoming.method, headers });
    passed.on('response', (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    passed.on('error', () => outgoing.destroy());
    outgoing.on('close', () => passed.destroy());
    incoming.pipe(passed);
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
