import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { endPacing, paceChunks, reportFailure } from '@cloche/node-support';
import type { Logger } from 'pino';
import type { LeafContexts } from '../authority/leaf-contexts.ts';
import type { DecisionLog } from '../decisions/decision-log.ts';
import { permitsRaw } from '../policy/egress-policy.ts';
import { type Host, hostText } from '../policy/host-name.ts';
import { resetConnection } from '../reset-connection.ts';
import type { GatedSandboxes } from '../sandboxes/gated-sandboxes.ts';
import { boundBuffers, type Endpoint } from '../socket-options.ts';
import { EgressError } from '../upstream/egress-error.ts';
import type { Connection } from './connection.ts';
import { guard } from './guard.ts';
import { Http1Proxy } from './http1-proxy.ts';
import { Http2Proxy } from './http2-proxy.ts';
import { isHttpServer, type Protocol, Sniffer } from './sniffer.ts';
import { interceptTls } from './tls-interceptor.ts';
import { tunnel } from './tunnel.ts';

/** Silence of a client after which the server may speak first, as in SMTP. */
const SILENCE_MS = 300;
/** Units of the sandbox's turn budget that admitting a connection costs: its first read may hold as many pieces. */
const ADMISSION_COST = 250;
const FIRST_BYTES_TIMEOUT_MS = 10_000;
/** Bytes of the kernel's socket buffers. The client is on this host, so a small window is as fast as a large one. */
const CLIENT_BUFFERS = { receiveBytes: 64 * 1024, sendBytes: 128 * 1024 };
/** Bytes buffered for each direction of a connection: a few reads, so that writing seldom waits for reading. */
const BUFFERED_BYTES = 256 * 1024;

export interface GatewayDeps {
  listen: { address: string; port: number };
  sandboxes: GatedSandboxes;
  leaves: LeafContexts;
  decisions: DecisionLog;
  /** Returns the original destination of a redirected connection. */
  destinationOf: (socket: Socket) => Endpoint | undefined;
  headersTimeoutMs?: number;
  log: Logger;
}

/** Accepts the TCP connections of gated sandboxes, detects their protocols, and applies the policy to them. */
export class Gateway {
  readonly #deps: GatewayDeps;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #http1: Http1Proxy;
  readonly #http2: Http2Proxy;

  private constructor(deps: GatewayDeps) {
    const { decisions, headersTimeoutMs, log } = deps;
    this.#deps = deps;
    this.#http1 = new Http1Proxy({
      decisions,
      onTunnel: (socket, connection) => this.#take(socket, connection),
      ...(headersTimeoutMs !== undefined && { headersTimeoutMs }),
    });
    this.#http2 = new Http2Proxy(decisions);
    // Half-open, because a client can close its side and still read the response.
    this.#server = createServer({ allowHalfOpen: true, noDelay: true, highWaterMark: BUFFERED_BYTES }, (socket) =>
      this.#onConnection(socket),
    );
    // A connection that cannot be accepted must not end the process. `open` reports that the address cannot be bound.
    this.#server.on('error', (err) => this.#server.listening && log.error({ err }, 'a connection was not accepted'));
  }

  /** Opens a gateway. Rejects if the address cannot be bound. */
  static async open(deps: GatewayDeps): Promise<Gateway> {
    const gateway = new Gateway(deps);
    gateway.#server.listen(deps.listen.port, deps.listen.address);
    await once(gateway.#server, 'listening');
    return gateway;
  }

  get port(): number {
    const address = this.#server.address();
    return address !== null && typeof address === 'object' ? address.port : 0;
  }

  /** Closes the server and breaks off all connections. */
  async close(): Promise<void> {
    this.#server.close();
    this.#http1.close();
    this.#http2.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server, 'close');
  }

  #onConnection(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    // An error of the client needs no handling. The socket closes anyway.
    socket.on('error', () => {});
    boundBuffers(socket, CLIENT_BUFFERS);
    const traffic = this.#deps.sandboxes.find(socket.remoteAddress);
    const destination = this.#deps.destinationOf(socket);
    if (!destination || !traffic?.adopt(socket)) {
      resetConnection(socket);
      return;
    }
    // Before the first read, which the gateway looks at before a parser gets it.
    paceChunks(socket, traffic.pieces);
    const { address, port } = destination;
    const host: Host = { kind: 'ipv4', address };
    this.#take(socket, { traffic, client: socket, destination: { host, port }, depth: 0 });
  }

  #take(socket: Socket, connection: Connection): void {
    const { sandboxId } = connection.traffic;
    guard(this.#deps.decisions, sandboxId, this.#admit(socket, connection), () => resetConnection(socket));
  }

  async #admit(socket: Socket, connection: Connection): Promise<void> {
    if (connection.traffic.policy.mode === 'deny-all') return this.#refuse(socket, connection, 'policy');
    const { traffic } = connection;
    using turn = await traffic.admissions.begin(socket);
    if (!turn) return;
    await traffic.pieces.next(ADMISSION_COST);
    const sniffer = new Sniffer(socket);
    const deadline = setTimeout(() => sniffer.stop(), FIRST_BYTES_TIMEOUT_MS);
    sniffer.protocol.then(() => clearTimeout(deadline)).catch(reportFailure);
    const isRawPermitted = permitsRaw(connection.traffic.policy, connection.destination);
    const isSilent = isRawPermitted && (await this.#staysSilent(sniffer));
    if (isSilent) await this.#letServerSpeak(socket, connection, sniffer);
    else await this.#proxy(await sniffer.protocol, socket, connection);
  }

  async #staysSilent(sniffer: Sniffer): Promise<boolean> {
    const spoken = new AbortController();
    const silence = delay(SILENCE_MS, true, { signal: spoken.signal }).catch(() => false);
    const isSilent = await Promise.race([sniffer.protocol.then(() => false), silence]);
    spoken.abort();
    return isSilent;
  }

  /**
   * Waits for the server or the client to speak. If the server speaks first, the connection is raw unless it speaks
   * HTTP. If the client speaks first, its bytes decide.
   */
  async #letServerSpeak(socket: Socket, connection: Connection, sniffer: Sniffer): Promise<void> {
    using place = await connection.traffic.begin(connection.client, socket);
    const server = place && (await this.#connectRaw(socket, connection));
    if (!server) return sniffer.stop();
    const listening = new AbortController();
    const spoken = once(server, 'readable', { signal: listening.signal }).then(
      () => 'server' as const,
      () => 'server' as const,
    );
    const first = await Promise.race([sniffer.protocol, spoken]);
    // From here on only the relay reads from the server.
    listening.abort();
    if (first === 'server' || first === 'raw') {
      sniffer.stop();
      const greeting: Buffer | null = server.read();
      if (greeting !== null && isHttpServer(greeting)) {
        server.destroy();
        return this.#refuse(socket, connection, 'protocol');
      }
      if (greeting !== null) server.unshift(greeting);
      return this.#relay(socket, server, connection);
    }
    server.destroy();
    return this.#proxy(first, socket, connection);
  }

  async #proxy(protocol: Protocol | undefined, socket: Socket, connection: Connection): Promise<void> {
    if (protocol === 'http') this.#http1.serve(socket, connection);
    else if (protocol === 'tls') await this.#proxyTls(socket, connection);
    else if (protocol === 'raw') await this.#proxyRaw(socket, connection);
    else socket.destroy();
  }

  async #proxyTls(socket: Socket, connection: Connection): Promise<void> {
    const { leaves } = this.#deps;
    const { traffic, destination } = connection;
    const onSecure = (secured: TLSSocket, secureHost: Host) => {
      const proxy = secured.alpnProtocol === 'h2' ? this.#http2 : this.#http1;
      proxy.serve(secured, { ...connection, secureHost });
    };
    try {
      await interceptTls(socket, { traffic, destination: destination.host, leaves, onSecure });
    } catch {
      this.#record(connection, 'tls', { verdict: 'failed', reason: 'handshake' });
    }
  }

  async #proxyRaw(socket: Socket, connection: Connection): Promise<void> {
    const { traffic, client, destination } = connection;
    if (!permitsRaw(traffic.policy, destination)) return this.#refuse(socket, connection, 'protocol');
    using place = await traffic.begin(client, socket);
    const server = place && (await this.#connectRaw(socket, connection));
    if (server) await this.#relay(socket, server, connection);
  }

  /** Returns undefined if the server cannot or may not be reached. Resets the client's connection then. */
  async #connectRaw(socket: Socket, connection: Connection): Promise<Socket | undefined> {
    const { traffic, destination } = connection;
    try {
      return await traffic.connect({ ...destination, isSecure: false });
    } catch (error) {
      const reason = error instanceof EgressError ? error.reason : 'unreachable';
      this.#record(connection, 'raw', {
        verdict: reason === 'denied' ? 'denied' : 'failed',
        reason,
      });
      resetConnection(socket);
      return undefined;
    }
  }

  async #relay(socket: Socket, server: Socket, connection: Connection): Promise<void> {
    const startedAt = performance.now();
    endPacing(socket);
    await tunnel(socket, server);
    this.#record(connection, 'raw', {
      verdict: 'permitted',
      bytesUp: server.bytesWritten,
      bytesDown: server.bytesRead,
      durationMs: Math.round(performance.now() - startedAt),
    });
  }

  #refuse(socket: Socket, connection: Connection, reason: string): void {
    this.#record(connection, 'raw', { verdict: 'denied', reason });
    resetConnection(socket);
  }

  #record(
    { traffic, destination }: Connection,
    protocol: 'raw' | 'tls',
    outcome: Pick<Parameters<DecisionLog['record']>[0], 'verdict' | 'reason' | 'bytesUp' | 'bytesDown' | 'durationMs'>,
  ): void {
    const { sandboxId } = traffic;
    const { host, port } = destination;
    this.#deps.decisions.record({ sandboxId, protocol, host: hostText(host), port, ...outcome });
  }
}
