import { once } from 'node:events';
import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { Server as TcpServer } from 'node:net';
import type { CertificateAuthority, Leaf } from '../src/authority/certificate-authority.ts';

/** Address of the tests' servers: the part of the loopback in which no test's sandbox has its address. */
export const SERVER_ADDRESS = '127.0.0.1';

export async function listening<T extends TcpServer>(server: T, address = SERVER_ADDRESS): Promise<T> {
  server.listen(0, address);
  await once(server, 'listening');
  return server;
}

export function portOf(server: TcpServer): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server does not listen');
  return address.port;
}

export function httpServer(serve: RequestListener): Promise<Server> {
  return listening(createHttpServer(serve));
}

/** Starts a server with a certificate for that name. */
export async function httpsServer(authority: CertificateAuthority, name: string, serve: RequestListener) {
  const { certificate, key }: Leaf = await authority.issue({ kind: 'name', name });
  return listening(createHttpsServer({ cert: certificate, key }, serve));
}
