import { createSocket, type Socket as DatagramSocket } from 'node:dgram';
import { once } from 'node:events';
import { Socket, type SocketConstructorOpts } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../linux/libc.ts';
import { openInternetSocket } from '../linux/network-namespace.ts';

/** Pause before a datagram is sent again: one may be lost while the kernel learns an address. */
const REPEAT_MS = 250;
/** First pause between two looks at what the kernel has counted; it doubles. */
const LOOK_MS = 2;

export interface Endpoint {
  address: string;
  port: number;
}

/** A socket for datagrams in a network namespace. */
export class ProbeSocket implements Disposable {
  readonly #socket: DatagramSocket = createSocket('udp4');
  readonly #received = Promise.withResolvers<void>();
  #hasReceived = false;

  private constructor() {
    this.#socket.on('error', () => undefined);
    this.#socket.once('message', () => {
      this.#hasReceived = true;
      this.#received.resolve();
    });
  }

  /** @param port bound on every address; by default the kernel chooses one */
  static async open(namespace: number, port?: number): Promise<ProbeSocket> {
    const opened = new ProbeSocket();
    const socket = opened.#socket;
    // Before `bind`: with a descriptor, the event comes at once.
    const listening = once(socket, 'listening');
    socket.bind({ fd: openInternetSocket(namespace, 'datagram', port), exclusive: true });
    await listening;
    return opened;
  }

  /** Whether a datagram has arrived. */
  get hasReceived(): boolean {
    return this.#hasReceived;
  }

  /** Sends each datagram back. */
  echo(): this {
    this.#socket.on('message', (message, { port, address }) => this.#send(message, { port, address }));
    return this;
  }

  /** Sends a datagram, again if need be, until an answer arrives. Returns false when `signal` aborts before. */
  async isAnswered(message: Uint8Array, to: Endpoint, signal: AbortSignal): Promise<boolean> {
    const answered = this.#received.promise.then(() => true);
    while (!signal.aborted && !this.#hasReceived) {
      this.#send(message, to);
      await Promise.race([answered, pause(REPEAT_MS, signal)]);
    }
    return this.#hasReceived;
  }

  /** Sends a datagram, again if need be, until `hasArrived` tells so. Returns false when `signal` aborts before. */
  async sendsUntil(hasArrived: () => boolean, to: Endpoint, signal: AbortSignal): Promise<boolean> {
    for (let pauseMs = LOOK_MS; !signal.aborted; pauseMs = Math.min(2 * pauseMs, REPEAT_MS)) {
      this.#send(Buffer.from('probe'), to);
      await pause(pauseMs, signal);
      if (hasArrived()) return true;
    }
    return false;
  }

  [Symbol.dispose](): void {
    this.#socket.close();
  }

  /** Ignores errors: a packet that is refused does not arrive. */
  #send(message: Uint8Array, { port, address }: Endpoint): void {
    this.#socket.send(message, port, address, () => undefined);
  }
}

/**
 * Returns whether a connection from a network namespace, or from this process's own, is accepted. Returns false when it
 * is refused, or when `signal` aborts before.
 */
export async function isAccepted(
  namespace: number | undefined,
  { port, address }: Endpoint,
  signal: AbortSignal,
): Promise<boolean> {
  const fd = namespace === undefined ? undefined : openInternetSocket(namespace, 'connection');
  // Not in the types: without it Node reads from a descriptor at once, also before it is connected.
  const options = { ...(fd !== undefined && { fd }), pauseOnCreate: true } as SocketConstructorOpts;
  const socket = new Socket(options).on('error', () => undefined);
  try {
    await once(socket.connect(port, address), 'connect', { signal });
    return true;
  } catch (error) {
    // Egress has accepted the connection, and ends it at once, because it does not know the sender.
    return errorCode(error) === 'ECONNRESET';
  } finally {
    socket.destroy();
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<false> {
  return delay(ms, false as const, { signal }).catch(() => false as const);
}
