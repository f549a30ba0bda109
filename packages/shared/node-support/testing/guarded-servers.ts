import { once } from 'node:events';
import type { ServerOptions } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { GuardedServer, type ServerRules } from '../src/guarded-server.ts';

export const PLAIN = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
export const UPGRADE = 'GET /up HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: words\r\n\r\n';
export const CONNECT = 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n';

let closing: (() => void)[] = [];

export function closeServers(): void {
  for (const close of closing) close();
  closing = [];
}

/** Opens a server on the loopback. `closeServers` ends it and its clients. */
export async function openServer(rules: Partial<ServerRules> = {}, options: ServerOptions = {}) {
  const failures: unknown[] = [];
  const server = new GuardedServer(
    { connectionsCheckingInterval: 20, ...options },
    {
      serve: (_, response) => void response.end('ok'),
      mayUpgrade: () => true,
      report: (error) => failures.push(error),
      ...rules,
    },
  );
  const sockets: Socket[] = [];
  server.on('connection', (socket: Socket) => sockets.push(socket));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  closing.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    server,
    failures,
    /** Number of connections that the server has. */
    left: () => sockets.filter(({ closed }) => !closed).length,
    connect(bytes: string): Socket {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => undefined);
      closing.push(() => socket.destroy());
      socket.write(bytes);
      return socket;
    },
  };
}
