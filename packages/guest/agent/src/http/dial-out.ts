import type { IncomingMessage, Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { BackOff } from '@cloche/node-support';

/** Connections kept open for simultaneous requests. The host accepts at most 16. */
const READY_CONNECTIONS = 8;
/** The first pause is short, because a host that restarts listens again soon. */
const PAUSES = { firstMs: 20, longestMs: 1000 };

/** Serves on connections that it opens to the host, for hosts that cannot connect to a sandbox. Reopens closed ones. */
export class DialOut {
  readonly #server: Server;
  readonly #path: string;
  /** Connections that no request has used yet. */
  readonly #ready = new Set<Socket>();
  readonly #backOff = new BackOff(PAUSES);
  #stopped = false;

  constructor(server: Server, path: string) {
    this.#server = server;
    this.#path = path;
    for (const event of ['request', 'upgrade']) {
      server.on(event, ({ socket }: IncomingMessage) => this.#isTaken(socket));
    }
  }

  start(): void {
    while (!this.#stopped && this.#ready.size < READY_CONNECTIONS) this.#dial();
  }

  /** Closes unused connections and opens no more. Requests in progress continue. */
  stop(): void {
    this.#stopped = true;
    for (const socket of this.#ready) socket.destroy();
  }

  #dial(): void {
    // Half-open, like the connections that a server accepts: one direction can go on after the other has ended.
    const socket = connect({ path: this.#path, allowHalfOpen: true });
    this.#ready.add(socket);
    socket.once('connect', () => {
      this.#backOff.reset();
      this.#server.emit('connection', socket);
    });
    socket.on('error', () => socket.destroy());
    socket.once('close', () => {
      this.#ready.delete(socket);
      this.#redial();
    });
  }

  #isTaken(socket: Socket): void {
    if (this.#ready.delete(socket)) this.start();
  }

  /** Opens new connections after a pause. */
  #redial(): void {
    setTimeout(() => this.start(), this.#backOff.next());
  }
}
