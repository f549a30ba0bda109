import { createServer, type Server, type Socket } from 'node:net';
import { MAX_PORT_TUNNELS } from '@cloche/protocol';

/** Idle connections that the guest may open in advance. */
export const MAX_IDLE = 16;
/** Server connections that may wait for one of the guest's; the server itself opens no more. */
export const MAX_WAITING = 256;

/**
 * Connections on which one side has ended and the other may continue: as many as the server has tunnels into a sandbox.
 */
export const MAX_HALF_OPEN = MAX_PORT_TUNNELS;

/** Longest time to deliver the bytes in transit after one side has ended. */
const LINGER_MS = 10_000;

/** Descriptors of listening sockets; the relay closes them. */
export interface RelayListeners {
  /** Socket that the server connects to. */
  outside: number;
  /** Socket that the guest connects to. */
  inside: number;
}

/**
 * Joins each connection of the server to one that the guest has opened, for a runtime whose guests can connect but
 * cannot be connected to.
 *
 * SECURITY: a guest reaches only what the server connects to this relay: no address or name comes from the guest.
 * Connections beyond the limit are closed at once.
 */
export class AgentRelay {
  readonly #listeners: readonly Server[];
  readonly #sockets = new Set<Socket>();
  readonly #idle = new Set<Socket>();
  readonly #waiting = new Set<Socket>();
  /** Sides that continue after the other one ended, oldest first. */
  readonly #halfOpen = new Set<Socket>();

  constructor({ outside, inside }: RelayListeners) {
    this.#listeners = [this.#listen(outside, this.#waiting, MAX_WAITING), this.#listen(inside, this.#idle, MAX_IDLE)];
  }

  /** Closes all connections. Idempotent. */
  close(): void {
    for (const listener of this.#listeners) listener.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #listen(fd: number, queue: Set<Socket>, bound: number): Server {
    // The sandbox opens these connections. One that cannot be accepted must not end hostd.
    const server = createServer({ allowHalfOpen: true }, (socket) => this.#accept(socket, queue, bound));
    return server.on('error', () => undefined).listen({ fd });
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
    // When one side closes, so does the other: the server cancels a run by closing its connection.
    for (const [one, other] of [
      [server, guest],
      [guest, server],
    ] as const) {
      one.pipe(other);
      one.once('end', () => this.#isHalfOpen(other));
      one.once('close', () => endSoon(other));
    }
  }

  /** SECURITY: limits how many half-open connections a guest can leave here by not ending its sides. */
  #isHalfOpen(socket: Socket): void {
    if (socket.destroyed) return;
    this.#halfOpen.add(socket);
    socket.once('close', () => this.#halfOpen.delete(socket));
    const [first] = this.#halfOpen;
    if (this.#halfOpen.size > MAX_HALF_OPEN) first?.destroy();
  }
}

/** Closes a socket after its pending bytes are delivered, or after `LINGER_MS`. */
function endSoon(socket: Socket): void {
  if (socket.destroyed) return;
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(timer)).destroySoon();
}
