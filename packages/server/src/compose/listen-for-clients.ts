import { chmodSync, rmSync } from 'node:fs';
import type { FastifyInstance } from 'fastify';
import type { Config } from './config.ts';

/**
 * Serves the API at the address of the configuration, on a socket that the service manager keeps, or, for one of several servers, on a socket that the load balancer of
 * the address connects to. Returns the URL that clients use.
 *
 * SECURITY: a server that listens on a socket believes the client's address that the load balancer appends, so only the user of
 * the server, which the load balancer runs as, may connect (servers.test.ts).
 */
export async function listenForClients(
  app: FastifyInstance,
  { host, port, serverName, keptSocketFd: fd }: Pick<Config, 'host' | 'port' | 'serverName' | 'keptSocketFd'>,
  socketPath: string,
): Promise<string> {
  // With `localhost` as the host, the framework would listen on further addresses.
  const address = fd === undefined ? { host, port } : { fd, host: '127.0.0.1' };
  if (serverName === undefined || fd !== undefined) return app.listen(address);
  rmSync(socketPath, { force: true });
  await app.listen({ path: socketPath });
  chmodSync(socketPath, 0o600);
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
