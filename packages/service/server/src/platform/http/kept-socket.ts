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
/** Longest time for which a stopping server accepts further requests on its open connections. */
const LAST_REQUESTS_MS = 500;

/**
 * Returns the descriptor of the socket, or undefined if none was passed to this process. @throws if there are several
 */
export function keptSocketFd(env: Readonly<Record<string, string | undefined>>, pid: number): number | undefined {
  const { LISTEN_FDS: count, LISTEN_PID: receiver } = env;
  if (count === undefined || Number(receiver) !== pid) return undefined;
  if (count !== '1') throw new Error(`the service manager passed ${count} sockets; the server takes one`);
  return FIRST_FD;
}

/** Transfers clients from a stopping server to the next one, which listens on the same socket. */
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
   * Stops accepting connections; new ones wait for the next server. For a moment, still serves requests that clients
   * have sent on open connections, and closes each connection after its response. Closes idle connections until the
   * result is disposed of.
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
