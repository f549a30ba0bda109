import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { GuardedServer, joinPieces, type LeavingConnection, paceChunks, type Refusal } from '@cloche/node-support';
import type { DecisionLog } from '../decisions/decision-log.ts';
import type { Connection } from './connection.ts';
import { refusalBody } from './exchange.ts';
import { forward, IDLE_MS } from './forward.ts';
import { hasTooManyFields, http1Exchange, refuseHttp1 } from './http1-exchange.ts';
import { type ProxiedProtocol, recorder, refuseDecided } from './outcome.ts';
import { type Decision, decideConnect, decideRequest } from './request-target.ts';
import { forwardUpgrade } from './upgrade.ts';

const HEADERS_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_MS = 60_000;
const MAX_HEADER_BYTES = 64 * 1024;
/** Most concurrent requests of one connection. apt sends ten. */
const MAX_PIPELINED = 32;

export interface Http1ProxyDeps {
  decisions: DecisionLog;
  /** Takes over a tunnel that CONNECT has made, whose protocol is detected anew. */
  onTunnel: (socket: Socket, connection: Connection) => void;
  headersTimeoutMs?: number;
}

/**
 * Proxies the HTTP/1.1 of clients, parsed by Node's strict parser. Requests to servers are serialized from the parsed
 * values, so that a server cannot read a request differently from egress.
 */
export class Http1Proxy {
  readonly #server: GuardedServer;
  readonly #deps: Http1ProxyDeps;
  readonly #connections = new WeakMap<Socket, Connection>();
  readonly #pipelines = new WeakMap<Socket, Pipeline>();

  constructor(deps: Http1ProxyDeps) {
    this.#deps = deps;
    const options = {
      insecureHTTPParser: false,
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: deps.headersTimeoutMs ?? HEADERS_TIMEOUT_MS,
      connectionsCheckingInterval: (deps.headersTimeoutMs ?? HEADERS_TIMEOUT_MS) / 4,
      // A large body can take long. The timeout of the connection to the server ends one that stalls.
      requestTimeout: 0,
      keepAliveTimeout: KEEP_ALIVE_MS,
      // A request of HTTP/1.0 need not have the field. Its address decides then.
      requireHostHeader: false,
    };
    this.#server = new GuardedServer(options, {
      serve: (request, response) => this.#onRequest(request, response),
      serveContinue: (request, response) => this.#onRequest(request, response, () => response.writeContinue()),
      mayUpgrade: isWebSocket,
      upgrade: (connection) => this.#onUpgrade(connection),
      connect: (connection) => this.#onConnect(connection),
      refuseInvalid: (error, socket) => this.#refuseInvalid(error, socket),
      report: (error, socket) => this.#report(error, socket),
      mostPending: MAX_PIPELINED,
      leaveMs: IDLE_MS,
    });
    // With a limit, Node would silently drop fields beyond it. The size of all fields is limited already.
    this.#server.maxHeadersCount = 0;
    // The server never listens, because it is given its connections. Node checks for slow requests only after this
    // event.
    this.#server.emit('listening');
  }

  serve(socket: Socket, connection: Connection): void {
    this.#connections.set(socket, connection);
    paceChunks(socket, connection.traffic.pieces);
    this.#server.emit('connection', socket);
    // The sniffer paused the socket when it put the first bytes back.
    socket.resume();
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #onRequest(request: IncomingMessage, response: ServerResponse, sendContinue?: () => void): Promise<void> {
    const { socket } = request;
    const connection = this.#connectionOf(socket);
    const { pieces } = connection.traffic;
    pieces.charge(request.rawHeaders.length);
    joinPieces(request, pieces);
    const pipeline = this.#pipelineOf(socket);
    pipeline.pending += 1;
    // Answers go out in the order of the requests, so a request starts only after the previous one has ended.
    const earlier = pipeline.last;
    const { promise, resolve } = Promise.withResolvers<void>();
    pipeline.last = promise;
    try {
      await earlier;
      if (pipeline.isRefused) return;
      using place = await connection.traffic.begin(connection.client, socket);
      if (place && !response.destroyed) await this.#answer(request, response, connection, sendContinue);
    } finally {
      pipeline.pending -= 1;
      resolve();
    }
  }

  async #answer(
    request: IncomingMessage,
    response: ServerResponse,
    connection: Connection,
    sendContinue?: () => void,
  ): Promise<void> {
    const isTooLong = hasTooManyFields(request);
    const exchange = isTooLong ? undefined : http1Exchange(request, response, sendContinue);
    const startedAt = performance.now();
    const decision: Decision = exchange
      ? decideRequest(connection, exchange)
      : { verdict: 'malformed', reason: isTooLong ? 'too_many_fields' : 'transfer_encoding', host: '' };
    const record = this.#recorder(connection, connection.secureHost ? 'https' : 'http', startedAt);
    if (exchange === undefined || decision.verdict !== 'permitted') {
      refuseDecided(decision, (status, body) => refuseHttp1(response, status, body));
      this.#pipelineOf(request.socket).isRefused = true;
      return record(decision);
    }
    record(decision, await forward(exchange, decision, connection.traffic));
  }

  async #onUpgrade(leaving: LeavingConnection): Promise<void> {
    const { request } = leaving;
    const connection = this.#connectionOf(request.socket);
    const record = this.#recorder(connection, 'websocket', performance.now());
    const decision = decideRequest(connection, {
      url: request.url ?? '',
      hosts: request.headersDistinct.host ?? [],
    });
    if (decision.verdict !== 'permitted') {
      refuseDecided(decision, (status, body) => leaving.refuse(refusal(status, body)));
      return record(decision);
    }
    using place = await connection.traffic.begin(connection.client, request.socket);
    if (!place) return;
    record(decision, await forwardUpgrade(leaving, decision, connection.traffic));
  }

  #onConnect(leaving: LeavingConnection): void {
    const { request } = leaving;
    const connection = this.#connectionOf(request.socket);
    const record = this.#recorder(connection, 'connect', performance.now());
    const isNested = connection.depth > 0;
    const decision: Decision = isNested
      ? { verdict: 'malformed', reason: 'connect_in_connect', host: request.url ?? '' }
      : decideConnect(connection, request.url ?? '');
    record(decision);
    if (decision.verdict !== 'permitted') {
      refuseDecided(decision, (status, body) => leaving.refuse(refusal(status, body)));
      return;
    }
    const socket = leaving.takePaced();
    if (!socket) return;
    socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
    const { host, port } = decision.target;
    const { traffic, client, depth } = connection;
    this.#deps.onTunnel(socket, { traffic, client, destination: { host, port }, depth: depth + 1 });
  }

  #refuseInvalid(error: NodeJS.ErrnoException, socket: Socket): Refusal | undefined {
    const connection = this.#connections.get(socket);
    const isOurs = error.code?.startsWith('HPE_') || error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
    // An error response would end up in the middle of another response.
    const isAnswering = this.#pipelineOf(socket).pending > 0;
    if (!connection || !isOurs || isAnswering) return undefined;
    const record = this.#recorder(connection, connection.secureHost ? 'https' : 'http', performance.now());
    record({ verdict: 'malformed', reason: error.code ?? '', host: '' });
    return refusal(400, refusalBody('egress_malformed', '', error.code ?? ''));
  }

  #report(error: unknown, socket: Socket | undefined): void {
    const connection = socket && this.#connections.get(socket);
    this.#deps.decisions.fail(connection?.traffic.sandboxId ?? '', error);
  }

  #pipelineOf(socket: Socket): Pipeline {
    const pipeline = this.#pipelines.get(socket) ?? { pending: 0, isRefused: false, last: Promise.resolve() };
    this.#pipelines.set(socket, pipeline);
    return pipeline;
  }

  #connectionOf(socket: Socket): Connection {
    const connection = this.#connections.get(socket);
    if (!connection) throw new Error('a request arrived on an unknown connection');
    return connection;
  }

  #recorder(connection: Connection, protocol: ProxiedProtocol, startedAt: number) {
    return recorder(this.#deps.decisions, connection, protocol, startedAt);
  }
}

/** The unfinished requests of one connection. */
interface Pipeline {
  pending: number;
  /** Set after a refusal. Later requests are not read, because the refused request may have smuggled them in. */
  isRefused: boolean;
  /** Settles when the last request has been answered. */
  last: Promise<void>;
}

function refusal(status: number, body: string): Refusal {
  return { status, fields: { 'content-type': 'application/json' }, body };
}

/** Returns whether to upgrade. Other upgrades, such as to HTTP/2, are ignored, as servers without them do. */
function isWebSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
}
