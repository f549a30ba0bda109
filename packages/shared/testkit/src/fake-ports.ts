import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { AgentError } from '@cloche/runtime';

/** The ports of a fake instance. Each leads to a server of this process. */
export class FakePorts {
  readonly #ports = new Map<number, number>();
  readonly #echoes: Server[] = [];
  readonly #tunnels = new Set<Socket>();

  /** Makes `port` of the instance lead to `hostPort` of this host's loopback. */
  map(port: number, hostPort: number): void {
    this.#ports.set(port, hostPort);
  }

  unmap(port: number): void {
    this.#ports.delete(port);
  }

  async echo(port: number): Promise<void> {
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      socket.on('error', () => socket.destroy()).pipe(socket);
    });
    this.#echoes.push(server);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    this.map(port, (server.address() as { port: number }).port);
  }

  async connect(port: number, signal: AbortSignal): Promise<Duplex> {
    const hostPort = this.#ports.get(port);
    if (hostPort === undefined) throw new AgentError('port_closed', `nothing listens on port ${port}`);
    const socket = connect({ host: '127.0.0.1', port: hostPort, allowHalfOpen: true });
    this.#tunnels.add(socket);
    socket.once('close', () => this.#tunnels.delete(socket));
    await once(socket, 'connect', { signal });
    return socket;
  }

  close(): void {
    for (const socket of this.#tunnels) socket.destroy(new AgentError('gone', 'the connection broke'));
    for (const echo of this.#echoes) echo.close();
    this.#ports.clear();
  }
}
