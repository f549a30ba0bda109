import { createServer } from 'node:net';

/** Returns a TCP port of the address `host` on which no process listens at the moment. */
export function findFreePort(host = '127.0.0.1'): Promise<number> {
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port: 0 }, () => {
      const address = server.address();
      server.close(() =>
        address && typeof address === 'object' ? resolve(address.port) : reject(new Error('the system gave no port')),
      );
    });
  });
}
