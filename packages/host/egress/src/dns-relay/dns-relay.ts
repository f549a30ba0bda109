import { createSocket, type Socket as DatagramSocket, type RemoteInfo } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { onAbort } from '@cloche/node-support';
import { inRanges } from '@cloche/settings';
import type { Logger } from 'pino';
import { LineBudget } from '../decisions/line-budget.ts';
import { frame, readFrames } from '../dns/dns-frames.ts';
import { failure, isQuery, refusalOf } from '../dns/dns-messages.ts';
import { askByConnection, askByDatagram, type Upstream } from '../dns/upstream.ts';
import type { LookupShares } from '../shares/egress-shares.ts';

/** Log lines per sandbox and window about questions that the resolver did not answer. */
const FAILURE_LINES = 5;
const ANSWER_TIMEOUT_MS = 5000;
const IDLE_CONNECTION_MS = 10_000;
/** Largest query accepted. A name, a type and options take a few hundred bytes. */
const MAX_QUERY_BYTES = 4096;
const MAX_REASON = 200;

export interface DnsRelayDeps {
  /** Address for sandboxes, both for UDP and for TCP. */
  listen: { address: string; port: number };
  upstream: Upstream;
  /** Addresses of sandboxes. Queries from elsewhere are ignored. */
  sandboxCidr: string;
  /** Limits on concurrent queries and connections. */
  shares: LookupShares;
  log: Logger;
  answerTimeoutMs?: number;
  /** Returns how to handle a query from `source`. By default, queries are passed on unchanged. */
  plan?: (query: Buffer, source: string, transport: Transport) => LookupPlan;
}

export type Transport = 'datagram' | 'connection';

/** Either the answer, or a query for the resolver and a function that turns its response into the answer. */
export type LookupPlan = { answer: Buffer } | { ask: Buffer; finish: (answer: Buffer) => Buffer };

/**
 * Passes the queries of sandboxes to the host's resolver, and its answers back. Parses them only if there is a `plan`.
 * Answers with a server failure if the resolver does not answer in time.
 */
export class DnsRelay {
  readonly #deps: DnsRelayDeps;
  readonly #isOfSandbox: (address: string) => boolean;
  readonly #datagrams: DatagramSocket;
  readonly #server: Server;
  readonly #lines: LineBudget;
  readonly #connections = new Set<Socket>();
  readonly #closing = new AbortController();

  private constructor(deps: DnsRelayDeps) {
    this.#deps = deps;
    this.#isOfSandbox = inRanges([deps.sandboxCidr]);
    this.#datagrams = createSocket('udp4');
    this.#datagrams.on('error', (err) => deps.log.error({ operation: 'dns.datagram', err }));
    this.#server = createServer();
    this.#server.on('error', (err) => deps.log.error({ operation: 'dns.listen', err }));
    const suppressed = (source: string, count: number) =>
      deps.log.warn({ operation: 'dns.ask', source, outcome: 'suppressed', count });
    this.#lines = new LineBudget(suppressed, FAILURE_LINES);
  }

  /** Listens on UDP and TCP. Rejects if the address cannot be bound. */
  static async open(deps: DnsRelayDeps): Promise<DnsRelay> {
    const relay = new DnsRelay(deps);
    const { address, port } = deps.listen;
    try {
      // TCP first: with port 0 the system chooses a port that is free for TCP, and UDP then takes the same number.
      relay.#server.listen(port, address);
      await once(relay.#server, 'listening');
      relay.#datagrams.bind((relay.#server.address() as AddressInfo).port, address);
      await once(relay.#datagrams, 'listening');
    } catch (error) {
      relay.#server.close();
      relay.#datagrams.close();
      throw error;
    }
    // A query that cannot be answered must not end egress.
    const failed = (err: unknown) => deps.log.error({ operation: 'dns.query', err });
    relay.#datagrams.on('message', (query, from) => {
      relay.#onDatagram(query, from).catch(failed);
    });
    relay.#server.on('connection', (socket) => {
      socket.on('error', () => socket.destroy());
      relay.#onConnection(socket).catch(failed);
    });
    return relay;
  }

  /** Port for both UDP and TCP. */
  get port(): number {
    return this.#datagrams.address().port;
  }

  /** Closes the relay. Open queries get no answer. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#lines.endWindow();
    this.#datagrams.close();
    for (const socket of this.#connections) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #onDatagram(query: Buffer, from: RemoteInfo): Promise<void> {
    if (!isQuery(query) || !this.#isOfSandbox(from.address)) return;
    const refusal = refusalOf(query);
    if (refusal) return this.#send(failure(query, refusal), from);
    const evicted = new AbortController();
    using place = this.#deps.shares.datagrams.tryEnter(from.address, { evict: () => evicted.abort() });
    const answer = place
      ? await this.#answer(query, { source: from.address, transport: 'datagram', evicted: evicted.signal })
      : failure(query, 'serverFailure');
    this.#send(answer, from);
  }

  /**
   * Sends an answer unless the relay is closed. Ignores errors, because a client that has gone is no fault of egress.
   */
  #send(answer: Buffer, to: RemoteInfo): void {
    if (!this.#closing.signal.aborted) this.#datagrams.send(answer, to.port, to.address, () => {});
  }

  async #onConnection(socket: Socket): Promise<void> {
    const source = socket.remoteAddress ?? '';
    const evicted = new AbortController();
    let isIdle = true;
    const held = {
      evict: () => evicted.abort(),
      get isIdle() {
        return isIdle;
      },
    };
    const isKnown = this.#isOfSandbox(source);
    using place = isKnown ? this.#deps.shares.connections.tryEnter(source, held) : undefined;
    if (!place) {
      socket.destroy();
      return;
    }

    this.#connections.add(socket);
    onAbort(evicted.signal, () => socket.destroy());
    socket.setTimeout(IDLE_CONNECTION_MS, () => socket.destroy());
    try {
      for await (const query of readFrames(socket, MAX_QUERY_BYTES)) {
        if (!isQuery(query)) break;
        isIdle = false;
        const refusal = refusalOf(query);
        const asker = { source, transport: 'connection', evicted: evicted.signal } as const;
        const answer = refusal ? failure(query, refusal) : await this.#answer(query, asker);
        if (!socket.write(frame(answer))) await once(socket, 'drain');
        isIdle = true;
      }
    } catch (err) {
      // The sandbox has broken the connection off.
      this.#deps.log.debug({ operation: 'dns.connection', source, err });
    } finally {
      this.#connections.delete(socket);
      socket.destroy();
    }
  }

  async #answer(query: Buffer, asker: Asker): Promise<Buffer> {
    const { source, transport, evicted } = asker;
    const plan = this.#plan(query, asker);
    // Not logged, because a sandbox can send any number of unreadable queries.
    if (!plan) return failure(query, 'formatError');
    if ('answer' in plan) return plan.answer;
    const { upstream, answerTimeoutMs = ANSWER_TIMEOUT_MS, log } = this.#deps;
    const startedAt = performance.now();
    try {
      const signal = AbortSignal.any([this.#closing.signal, evicted, AbortSignal.timeout(answerTimeoutMs)]);
      const ask = transport === 'datagram' ? askByDatagram : askByConnection;
      return plan.finish(await ask(plan.ask, upstream, signal));
    } catch (error) {
      if (!this.#closing.signal.aborted && this.#lines.take(source)) {
        const durationMs = Math.round(performance.now() - startedAt);
        const reason = evicted.aborted ? 'evicted' : `${error}`.slice(0, MAX_REASON);
        log.warn({ operation: 'dns.ask', source, upstream, durationMs, outcome: 'failed', reason });
      }
      return failure(query, 'serverFailure');
    }
  }

  /** Returns undefined for a query that cannot be parsed. */
  #plan(query: Buffer, { source, transport }: Asker): LookupPlan | undefined {
    try {
      return this.#deps.plan?.(query, source, transport) ?? { ask: query, finish: (answer: Buffer) => answer };
    } catch {
      return undefined;
    }
  }
}

interface Asker {
  source: string;
  transport: Transport;
  /** Aborts when another source needs this one's place. */
  evicted: AbortSignal;
}
