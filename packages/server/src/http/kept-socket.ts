/**
 * A listening socket that a service manager keeps while servers come and go, passed as systemd does (`sd_listen_fds`).
 * Connections that arrive while no server runs wait in the socket for the next one.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** The first descriptor that a service manager passes. */
const FIRST_FD = 3;
/** Interval at which connections without a request are closed. */
const CLOSE_IDLE_MS = 10;
/** Longest time in which a stopping server takes last requests on the connections that it has. */
const LAST_REQUESTS_MS = 500;

/** Returns the descriptor of the socket, or undefined if none was passed to this process. @throws if there are several */
export function keptSocketFd(env: Readonly<Record<string, string | undefined>>, pid: number): number | undefined {
  const { LISTEN_FDS: count, LISTEN_PID: receiver } = env;
  if (count === undefined || Number(receiver) !== pid) return undefined;
  if (count !== '1') throw new Error(`the service manager passed ${count} sockets; the server takes one`);
  return FIRST_FD;
}

/** Hands the clients of a stopping server over to the next one, which gets the same socket. */
export class KeptSocket {
  readonly #server: Server;
  readonly #open = new Set<Socket>();

  /** @param server the server that listens on the socket; it has no connections yet */
  constructor(server: Server) {
    this.#server = server;
    server.on('connection', (socket: Socket) => {
      this.#open.add(socket);
      socket.once('close', () => this.#open.delete(socket));
    });
  }

  /**
   * Leaves new connections to the next server. Serves what clients have sent on their connections, for a moment, and
   * closes each connection after its answer. Goes on closing those that have no request until the result is disposed
   * of.
   */
  async leave(): Promise<Disposable> {
    const server = this.#server;
    // Not `server.close`, which would close connections whose first request has not arrived yet.
    NetServer.prototype.close.call(server);
    for (const event of ['request', 'checkContinue'] as const) server.prependListener(event, endAfterAnswer);
    const until = performance.now() + LAST_REQUESTS_MS;
    while (this.#open.size > 0 && performance.now() < until) {
      if (![...this.#open].some(isNew)) server.closeIdleConnections();
      await delay(CLOSE_IDLE_MS);
    }
    const closing = setInterval(() => server.closeIdleConnections(), CLOSE_IDLE_MS);
    return { [Symbol.dispose]: () => clearInterval(closing) };
  }
}

function endAfterAnswer(_: IncomingMessage, response: ServerResponse): void {
  response.shouldKeepAlive = false;
}

/** Whether the first request of a connection has not arrived. */
function isNew({ bytesRead }: Socket): boolean {
  return bytesRead === 0;
}
