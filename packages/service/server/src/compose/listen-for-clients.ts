import { chmodSync, rmSync } from 'node:fs';
import type { FastifyInstance } from 'fastify';
import type { Config } from './config.ts';

/**
 * Starts to listen: on a socket that the service manager keeps; or, if several servers share a host, on a Unix socket
 * that the load balancer connects to; or else at the configured address. Returns the URL that clients use.
 *
 * SECURITY: a server on a Unix socket trusts the client address that the load balancer appends, so only the server's
 * own user may connect. The load balancer runs as that user (servers.test.ts).
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
