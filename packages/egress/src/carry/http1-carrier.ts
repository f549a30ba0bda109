import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';
import type { DecisionLog } from '../decisions/decision-log.ts';
import type { Connection } from './connection.ts';
import { contained } from './contained.ts';
import { refusalBody } from './exchange.ts';
import { forward } from './forward.ts';
import { hasTooManyFields, http1Exchange, refuseHttp1, responseOn } from './http1-exchange.ts';
import { joinPieces } from './join-pieces.ts';
import { type CarriedProtocol, recorder, refuseDecided } from './outcome.ts';
import { type Decision, decideConnect, decideRequest } from './request-target.ts';
import { forwardUpgrade } from './upgrade.ts';

const HEADERS_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_MS = 60_000;
const MAX_HEADER_BYTES = 64 * 1024;
/** Requests of one connection at once: apt sends ten. */
const MAX_PIPELINED = 32;
/** Has the parser fail. */
const PARSER_ERROR = -1;

export interface Http1CarrierOptions {
  decisions: DecisionLog;
  log: Logger;
  /** Takes a connection that CONNECT made, to tell anew what is spoken on it. */
  onTunnel: (socket: Socket, connection: Connection) => void;
  headersTimeoutMs?: number;
}

/**
 * HTTP/1.1 of clients, read by Node's own strict parser. What goes to servers is written anew from what was read, so
 * that no two readings of one request are possible behind it.
 */
export class Http1Carrier {
  readonly #server: Server;
  readonly #options: Http1CarrierOptions;
  readonly #connections = new WeakMap<Duplex, Connection>();
  readonly #pipelines = new WeakMap<Duplex, Pipeline>();

  constructor(options: Http1CarrierOptions) {
    this.#options = options;
    this.#server = createServer({
      insecureHTTPParser: false,
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: options.headersTimeoutMs ?? HEADERS_TIMEOUT_MS,
      connectionsCheckingInterval: (options.headersTimeoutMs ?? HEADERS_TIMEOUT_MS) / 4,
      // A large body may take its time; one that stands still is ended by the connection to the server.
      requestTimeout: 0,
      keepAliveTimeout: KEEP_ALIVE_MS,
      shouldUpgradeCallback: isWebSocket,
      // HTTP/1.0 has none; such a request is decided by its address.
      requireHostHeader: false,
    });
    // A field too many would be dropped in silence; their bytes are bounded already.
    this.#server.maxHeadersCount = 0;
    const within = (socket: Duplex, work: Promise<void>) => contained(options.log, work, () => socket.destroy());
    this.#server.on('request', (request, response) => within(request.socket, this.#onRequest(request, response)));
    this.#server.on('checkContinue', (request, response) => {
      within(
        request.socket,
        this.#onRequest(request, response, () => response.writeContinue()),
      );
    });
    this.#server.on('upgrade', (request, socket, head) => within(socket, this.#onUpgrade(request, socket, head)));
    this.#server.on('connect', (request, socket, head) => void this.#onConnect(request, socket, head));
    this.#server.on('clientError', (error, socket) => this.#onClientError(error, socket));
    // It is given its connections and never listens, yet only then does it watch over slow ones.
    this.#server.emit('listening');
  }

  serve(socket: Socket, connection: Connection): void {
    this.#connections.set(socket, connection);
    this.#server.emit('connection', socket);
    boundPipeline(socket, this.#pipelineOf(socket));
    // It was paused when its first bytes were put back.
    socket.resume();
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #onRequest(request: IncomingMessage, response: ServerResponse, askForBody?: () => void): Promise<void> {
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
      if (place && !response.destroyed) await this.#answer(request, response, connection, askForBody);
    } finally {
      pipeline.pending -= 1;
      resolve();
    }
  }

  async #answer(
    request: IncomingMessage,
    response: ServerResponse,
    connection: Connection,
    askForBody?: () => void,
  ): Promise<void> {
    const isTooLong = hasTooManyFields(request);
    const exchange = isTooLong ? undefined : http1Exchange(request, response, askForBody);
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

  async #onUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const connection = this.#connectionOf(socket);
    const record = this.#recorder(connection, 'websocket', performance.now());
    const decision = decideRequest(connection, {
      url: request.url ?? '',
      hosts: request.headersDistinct.host ?? [],
    });
    if (decision.verdict !== 'permitted') {
      refuseDecided(decision, (status, body) => refuseHttp1(responseOn(request, socket), status, body));
      return record(decision);
    }
    if (head.length > 0) socket.unshift(head);
    using place = await connection.traffic.begin(connection.client, socket);
    if (!place) return;
    record(decision, await forwardUpgrade(request, socket as Socket, decision, connection.traffic));
  }

  #onConnect(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const connection = this.#connectionOf(socket);
    const record = this.#recorder(connection, 'connect', performance.now());
    const isNested = connection.depth > 0;
    const decision: Decision = isNested
      ? { verdict: 'malformed', reason: 'connect_in_connect', host: request.url ?? '' }
      : decideConnect(connection, request.url ?? '');
    record(decision);
    if (decision.verdict !== 'permitted') {
      refuseDecided(decision, (status, body) => refuseHttp1(responseOn(request, socket), status, body));
      return;
    }
    if (head.length > 0) socket.unshift(head);
    socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
    const { host, port } = decision.target;
    const { traffic, client, depth } = connection;
    // Both are sockets: what serves them was given no other streams.
    this.#options.onTunnel(socket as Socket, { traffic, client, destination: { host, port }, depth: depth + 1 });
  }

  #onClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
    const connection = this.#connections.get(socket);
    const isOurs = error.code?.startsWith('HPE_') || error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
    // What we would say would go into the middle of an answer.
    const isAnswering = this.#pipelineOf(socket).pending > 0;
    if (!connection || !isOurs || isAnswering || !socket.writable) return void socket.destroy();
    const body = refusalBody('egress_malformed', '', error.code ?? '');
    socket.end(
      `HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
    );
    const record = this.#recorder(connection, connection.secureHost ? 'https' : 'http', performance.now());
    record({ verdict: 'malformed', reason: error.code ?? '', host: '' });
  }

  #pipelineOf(socket: Duplex): Pipeline {
    const pipeline = this.#pipelines.get(socket) ?? { pending: 0, isRefused: false, last: Promise.resolve() };
    this.#pipelines.set(socket, pipeline);
    return pipeline;
  }

  #connectionOf(socket: Duplex): Connection {
    const connection = this.#connections.get(socket);
    if (!connection) throw new Error('a request on an unknown connection');
    return connection;
  }

  #recorder(connection: Connection, protocol: CarriedProtocol, startedAt: number) {
    return recorder(this.#options.decisions, connection, protocol, startedAt);
  }
}

/** The requests of one connection whose answers are not at their end. */
interface Pipeline {
  pending: number;
  /** Once one was refused, none behind it is read: it may be what the refused one hid. */
  isRefused: boolean;
  /** Settles when the last one was answered. */
  last: Promise<void>;
}

/**
 * Ends a connection that has too many requests under way, before the next one is made: a read of 64 KiB may hold 3,600,
 * and Node's parser, which stops for nothing else, would make all of them in one turn of the event loop.
 */
function boundPipeline(socket: Socket, pipeline: Pipeline): void {
  // Node keeps its parser to itself, and every release so far has it here.
  const { parser } = socket as { parser?: { onIncoming(...incoming: unknown[]): number } };
  if (!parser) return;
  const onIncoming = parser.onIncoming;
  parser.onIncoming = (...incoming) => (pipeline.pending < MAX_PIPELINED ? onIncoming(...incoming) : PARSER_ERROR);
}

/** Other upgrades, to HTTP/2 for one, are left unheard, as servers do that know none. */
function isWebSocket(request: IncomingMessage): boolean {
  const hasBody =
    request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0;
  return request.method === 'GET' && request.headers.upgrade?.toLowerCase() === 'websocket' && !hasBody;
}
