import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const SOCKET = '.s.PGSQL.5432';

/**
 * Forwards connections to a PostgreSQL server. Can stop forwarding without closing them, like a network that loses all
 * packets, or the packets of one direction.
 */
export class StallingProxy implements AsyncDisposable {
  /** Folder of the proxy's socket. */
  readonly folder = mkdtempSync(join(tmpdir(), 'cloche-proxy-'));
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isStalled = false;
  #losesAnswers = false;
  #target: string;

  private constructor(target: string) {
    this.#target = target;
    this.#server = createServer((client) => {
      const server = connect(this.#target);
      for (const socket of [client, server]) {
        this.#sockets.add(socket);
        socket.on('error', () => undefined).once('close', () => this.#sockets.delete(socket));
        if (this.#isStalled) socket.pause();
      }
      carry(client, server);
      carry(server, client, () => this.#losesAnswers);
      if (this.#isStalled) for (const socket of [client, server]) socket.pause();
    });
  }

  /** @param sockets folder of the server's socket */
  static async open(sockets: string): Promise<StallingProxy> {
    const proxy = new StallingProxy(join(sockets, SOCKET));
    proxy.#server.listen(join(proxy.folder, SOCKET));
    await once(proxy.#server, 'listening');
    return proxy;
  }

  /** Carries new connections to another server, as a name does that follows the primary. */
  leadTo(sockets: string): void {
    this.#target = join(sockets, SOCKET);
  }

  stall(): void {
    this.#isStalled = true;
    for (const socket of this.#sockets) socket.pause();
  }

  resume(): void {
    this.#isStalled = false;
    for (const socket of this.#sockets) socket.resume();
  }

  /** Loses what PostgreSQL sends from now on, until the connections are cut. */
  loseAnswers(): void {
    this.#losesAnswers = true;
  }

  /** Closes every connection, and forwards later ones. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#losesAnswers = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Not a pipe, which would resume a socket that is to stand still. */
function carry(from: Socket, to: Socket, isLost = () => false): void {
  from.on('data', (chunk) => isLost() || to.write(chunk)).once('close', () => to.destroy());
}
