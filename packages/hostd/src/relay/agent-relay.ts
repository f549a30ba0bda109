import { createServer, type Server, type Socket } from 'node:net';
import { MAX_PORT_TUNNELS } from '@cloche/protocol';

/** Connections that the guest may have open without their being asked for. */
export const MAX_IDLE = 16;
/** Connections of the server's that wait for one of the guest's; it has no more than this itself. */
export const MAX_WAITING = 256;

/** Connections on which one side has ended and the other may go on: as many as the server has tunnels into a sandbox. */
export const MAX_HALF_OPEN = MAX_PORT_TUNNELS;

/** How long the other side may take for what is on its way when one has ended. */
const LINGER_MS = 10_000;

/** Listening sockets, which the relay takes over. */
export interface RelayListeners {
  /** Where the server connects. */
  outside: number;
  /** Where the guest connects. */
  inside: number;
}

/**
 * Joins each connection of the server's to one that the guest has opened, for a runtime whose guests can connect but
 * not be connected to.
 *
 * SECURITY: whatever the guest does here, it reaches what the server connects to this very relay, and nothing else: no
 * address or name comes from it. What it opens beyond the bound is closed at once.
 */
export class AgentRelay {
  readonly #listeners: readonly Server[];
  readonly #sockets = new Set<Socket>();
  readonly #idle = new Set<Socket>();
  readonly #waiting = new Set<Socket>();
  /** The sides that go on, those that have waited longest first. */
  readonly #halfOpen = new Set<Socket>();

  constructor({ outside, inside }: RelayListeners) {
    this.#listeners = [this.#listen(outside, this.#waiting, MAX_WAITING), this.#listen(inside, this.#idle, MAX_IDLE)];
  }

  /** Ends all of its connections. Idempotent. */
  close(): void {
    for (const listener of this.#listeners) listener.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #listen(fd: number, queue: Set<Socket>, bound: number): Server {
    return createServer({ allowHalfOpen: true }, (socket) => this.#accept(socket, queue, bound)).listen({ fd });
  }

  #accept(socket: Socket, queue: Set<Socket>, bound: number): void {
    if (queue.size >= bound) {
      socket.destroy();
      return;
    }
    this.#sockets.add(socket);
    queue.add(socket);
    socket.on('error', () => socket.destroy());
    socket.once('end', () => {
      if (queue.has(socket)) socket.destroy();
    });
    socket.once('close', () => {
      this.#sockets.delete(socket);
      queue.delete(socket);
    });
    this.#join();
  }

  #join(): void {
    const [server] = this.#waiting;
    const [guest] = this.#idle;
    if (server === undefined || guest === undefined) return;
    this.#waiting.delete(server);
    this.#idle.delete(guest);
    // The end of one is the end of the other: closing a connection is how the server cancels a run.
    for (const [one, other] of [
      [server, guest],
      [guest, server],
    ] as const) {
      one.pipe(other);
      one.once('end', () => this.#isHalfOpen(other));
      one.once('close', () => endSoon(other));
    }
  }

  /** SECURITY: a guest that ends none of its sides leaves a bounded number of them here. */
  #isHalfOpen(socket: Socket): void {
    if (socket.destroyed) return;
    this.#halfOpen.add(socket);
    socket.once('close', () => this.#halfOpen.delete(socket));
    const [first] = this.#halfOpen;
    if (this.#halfOpen.size > MAX_HALF_OPEN) first?.destroy();
  }
}

/** What was said before the end still arrives, unless nobody takes it. */
function endSoon(socket: Socket): void {
  if (socket.destroyed) return;
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(timer)).destroySoon();
}
