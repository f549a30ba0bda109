import { createSocket, type Socket as DatagramSocket, type RemoteInfo } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { Logger } from 'pino';
import { isInRange } from '../ipv4-range.ts';
import { frame, readFrames } from './dns-frames.ts';
import { isQuery, serverFailure } from './dns-messages.ts';
import { InFlight } from './in-flight.ts';
import { askByConnection, askByDatagram, type Upstream } from './upstream.ts';

const DATAGRAM_LIMITS = { total: 1024, perSource: 128 };
const CONNECTION_LIMITS = { total: 256, perSource: 16 };
const ANSWER_TIMEOUT_MS = 5000;
const IDLE_CONNECTION_MS = 10_000;

export interface DnsRelayOptions {
  /** Where sandboxes ask, by datagram and by connection. */
  listen: { address: string; port: number };
  upstream: Upstream;
  /** The range of those that are answered. */
  sandboxCidr: string;
  log: Logger;
  answerTimeoutMs?: number;
  /** What to make of a question of that source; without it every question is passed on as it is. */
  plan?: (query: Buffer, source: string, transport: Transport) => LookupPlan;
}

export type Transport = 'datagram' | 'connection';

/** A question that is answered here, or that is asked in this form and whose answer is then finished. */
export type LookupPlan = { answer: Buffer | undefined } | { ask: Buffer; finish: (answer: Buffer) => Buffer };

/**
 * Passes the questions of sandboxes on to a resolver of the host's, and the answers back, without reading either unless
 * there is a plan that does. What cannot be answered in time is answered with a server failure.
 */
export class DnsRelay {
  readonly #options: DnsRelayOptions;
  readonly #datagrams: DatagramSocket;
  readonly #server: Server;
  readonly #datagramsInFlight = new InFlight(DATAGRAM_LIMITS);
  readonly #connectionsOpen = new InFlight(CONNECTION_LIMITS);
  readonly #connections = new Set<Socket>();
  readonly #closing = new AbortController();

  private constructor(options: DnsRelayOptions) {
    this.#options = options;
    this.#datagrams = createSocket('udp4');
    this.#server = createServer();
  }

  /** Listens on both. Rejects when the address cannot be bound. */
  static async open(options: DnsRelayOptions): Promise<DnsRelay> {
    const relay = new DnsRelay(options);
    const { address, port } = options.listen;
    try {
      // First: of free ports the system knows better which are so for connections.
      relay.#server.listen(port, address);
      await once(relay.#server, 'listening');
      relay.#datagrams.bind((relay.#server.address() as AddressInfo).port, address);
      await once(relay.#datagrams, 'listening');
    } catch (error) {
      relay.#server.close();
      relay.#datagrams.close();
      throw error;
    }
    relay.#datagrams.on('message', (query, from) => void relay.#onDatagram(query, from));
    relay.#datagrams.on('error', (err) => options.log.error({ operation: 'dns.datagram', err }));
    relay.#server.on('connection', (socket) => void relay.#onConnection(socket));
    relay.#server.on('error', (err) => options.log.error({ operation: 'dns.listen', err }));
    return relay;
  }

  /** The port of both. */
  get port(): number {
    return this.#datagrams.address().port;
  }

  /** What is under way is given up unanswered. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#datagrams.close();
    for (const socket of this.#connections) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #onDatagram(query: Buffer, from: RemoteInfo): Promise<void> {
    if (!isQuery(query) || !isInRange(from.address, this.#options.sandboxCidr)) return;
    using place = this.#datagramsInFlight.tryEnter(from.address);
    const answer = place ? await this.#answer(query, from.address, 'datagram') : serverFailure(query);
    // An asker that is gone by now is told nothing, and that is no failure of ours.
    if (answer) this.#datagrams.send(answer, from.port, from.address, () => {});
  }

  async #onConnection(socket: Socket): Promise<void> {
    const source = socket.remoteAddress ?? '';
    using place = isInRange(source, this.#options.sandboxCidr) ? this.#connectionsOpen.tryEnter(source) : undefined;
    if (!place) return void socket.destroy();

    this.#connections.add(socket);
    socket.setTimeout(IDLE_CONNECTION_MS, () => socket.destroy());
    try {
      for await (const query of readFrames(socket)) {
        const answer = isQuery(query) ? await this.#answer(query, source, 'connection') : undefined;
        if (!answer) break;
        if (!socket.write(frame(answer))) await once(socket, 'drain');
      }
    } catch (err) {
      // A connection that its sandbox breaks off is its own affair.
      this.#options.log.debug({ operation: 'dns.connection', source, err });
    } finally {
      this.#connections.delete(socket);
      socket.destroy();
    }
  }

  async #answer(query: Buffer, source: string, transport: Transport): Promise<Buffer | undefined> {
    const { upstream, answerTimeoutMs = ANSWER_TIMEOUT_MS, log } = this.#options;
    const startedAt = performance.now();
    try {
      const plan = this.#options.plan?.(query, source, transport) ?? { ask: query, finish: (answer: Buffer) => answer };
      if ('answer' in plan) return plan.answer;
      const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(answerTimeoutMs)]);
      const ask = transport === 'datagram' ? askByDatagram : askByConnection;
      return plan.finish(await ask(plan.ask, upstream, signal));
    } catch (err) {
      if (this.#closing.signal.aborted) return undefined;
      const durationMs = Math.round(performance.now() - startedAt);
      log.warn({ operation: 'dns.ask', upstream, durationMs, outcome: 'failed', err });
      return serverFailure(query);
    }
  }
}
