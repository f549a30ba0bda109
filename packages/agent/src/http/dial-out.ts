import type { IncomingMessage, Server } from 'node:http';
import { connect, type Socket } from 'node:net';

/** Connections kept ready for requests that come at the same moment; the host takes no more than 16. */
const READY_CONNECTIONS = 8;
const FIRST_PAUSE_MS = 20;
const LAST_PAUSE_MS = 1000;

/** Serves on connections that it opens itself, where nobody can connect to a sandbox; opens them again when they end. */
export class DialOut {
  readonly #server: Server;
  readonly #path: string;
  /** No request has come on these yet. */
  readonly #ready = new Set<Socket>();
  #pauseMs = 0;
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

  /** What is under way goes on; connections that wait end. */
  stop(): void {
    this.#stopped = true;
    for (const socket of this.#ready) socket.destroy();
  }

  #dial(): void {
    // As of those that a server accepts: the one way goes on when the other has ended.
    const socket = connect({ path: this.#path, allowHalfOpen: true });
    this.#ready.add(socket);
    socket.once('connect', () => {
      this.#pauseMs = 0;
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

  /** Soon at first: a host that has just restarted listens again in a moment. */
  #redial(): void {
    this.#pauseMs = Math.min(LAST_PAUSE_MS, this.#pauseMs * 2 || FIRST_PAUSE_MS);
    setTimeout(() => this.start(), this.#pauseMs);
  }
}
