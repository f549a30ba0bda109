import { type IncomingMessage, Server, type ServerOptions, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { readRest } from './body-stream.ts';
import { hasBody } from './has-body.ts';
import { answerRefusal, endAndDestroy, LeavingConnection, type Refusal } from './leaving-connection.ts';
import { paceChunks } from './pace-chunks.ts';
import { parseFromStream } from './parse-from-stream.ts';
import { Pipeline } from './pipeline.ts';
import { TurnBudget } from './turn-budget.ts';

/** Most unanswered requests of one connection. */
const MOST_PENDING = 16;
/** Chunks of bodies that are parsed in one turn of the event loop; each takes a few microseconds. */
const CHUNKS_PER_TURN = 1_000;
/**
 * Default of `keepAliveTimeout`. It exceeds the time for which reverse proxies, and the clients of the service's own
 * sockets, keep a connection. So the client closes it: a request that is on its way when the server closes gets lost.
 */
const KEEP_ALIVE_MS = 75_000;
/** Time for a connection that leaves HTTP to be taken or answered. */
const LEAVE_MS = 60_000;

type Serve = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;
type ServeLeaving = (connection: LeavingConnection) => void | Promise<void>;

export interface ServerRules {
  readonly serve: Serve;
  /** Serves requests that expect `100 Continue`, and sends it. Default: it is sent at once. */
  readonly serveContinue?: Serve;
  /** Whether a request may upgrade. It is served as an ordinary one otherwise, and always if it has a body. */
  readonly mayUpgrade?: (request: IncomingMessage) => boolean;
  readonly upgrade?: ServeLeaving;
  /** Default: CONNECT is refused. */
  readonly connect?: ServeLeaving;
  /** Returns the answer to bytes that are not HTTP and to requests that arrive too slowly. Undefined closes. */
  readonly refuseInvalid?: (error: NodeJS.ErrnoException, socket: Socket) => Refusal | undefined;
  /** Most header fields of a request. Default: Node's 2,000, of which further ones are dropped. */
  readonly mostFields?: number;
  /** Default: 400 with a sentence. */
  readonly refuseFields?: (request: IncomingMessage) => Refusal;
  /** Whether a request may take longer than the server's timeouts. */
  readonly mayBeSlow?: (socket: Socket) => boolean;
  readonly refuseExpectation?: (request: IncomingMessage) => Refusal;
  /** Reports what a function of these rules threw, whose connection is closed, or that accepting a connection failed. */
  readonly report: (error: unknown, socket?: Socket) => void;
  readonly mostPending?: number;
  readonly leaveMs?: number;
}

/**
 * An HTTP server that owns all of its connections until they close, also those that leave HTTP by an upgrade or CONNECT.
 *
 * - A failure ends one connection.
 * - An upgrade or CONNECT behind an unanswered request closes the connection: no client sends these, and the answers
 *   could not be told apart.
 * - `closeAllConnections` also destroys connections that have left HTTP.
 * - The time that this process did not read does not count against a client.
 * - Bodies in tiny chunks do not keep the process from others.
 * - After an answer, what is left of its request's body is read, so that the next request is.
 */
export class GuardedServer extends Server {
  readonly #rules: ServerRules;
  readonly #pipelines = new WeakMap<Socket, Pipeline>();
  readonly #chunks = new TurnBudget(CHUNKS_PER_TURN);
  /** Connections that have left HTTP. */
  readonly #left = new Set<Socket>();
  #isClosing = false;

  constructor(options: ServerOptions, rules: ServerRules) {
    const { mayUpgrade } = rules;
    const shouldUpgradeCallback = (request: IncomingMessage) => !!mayUpgrade?.(request) && !hasBody(request.headers);
    super({ keepAliveTimeout: KEEP_ALIVE_MS, ...options, shouldUpgradeCallback });
    this.#rules = rules;
    this.on('connection', (socket: Socket) => this.#own(socket));
    this.on('request', (request, response) => this.#serve(rules.serve, request, response));
    const { serveContinue, upgrade } = rules;
    if (serveContinue) this.on('checkContinue', (...given) => this.#serve(serveContinue, ...given));
    if (upgrade) this.on('upgrade', (...given) => this.#leave(upgrade, ...given));
    this.on('connect', (...given) => this.#leave(rules.connect ?? refuseConnect, ...given));
    this.on('checkExpectation', (...given) => this.#serve(this.#refuseExpectation, ...given));
    this.on('clientError', (error, socket) => this.#onInvalid(error, socket as Socket));
    // A connection that cannot be accepted must not end the process. `listen` reports its own errors.
    this.on('error', (error) => this.listening && rules.report(error));
  }

  override close(callback?: (error?: Error) => void): this {
    this.#isClosing = true;
    return super.close(callback);
  }

  override closeAllConnections(): void {
    super.closeAllConnections();
    for (const socket of this.#left) socket.destroy();
  }

  #own(socket: Socket): void {
    // Node removes its own listener when the connection leaves HTTP. An error destroys the socket anyway.
    socket.on('error', () => undefined);
    paceChunks(socket, this.#chunks);
    parseFromStream(socket);
    const mostPending = this.#rules.mostPending ?? MOST_PENDING;
    this.#pipelines.set(socket, new Pipeline(socket, mostPending, () => endAndDestroy(socket)));
  }

  #serve(serve: Serve, request: IncomingMessage, response: ServerResponse): void {
    this.#pipelines.get(request.socket)?.add(response);
    if (hasBody(request.headers)) response.once('finish', () => request.complete || readRest(request));
    const serves = this.#hasTooManyFields(request) ? this.#refuseFields : serve;
    this.#guard(() => serves(request, response), request.socket);
  }

  #leave(serve: ServeLeaving, request: IncomingMessage, stream: Duplex, head: Buffer): void {
    const { socket } = request;
    // Node gives another stream while the body of an upgrade arrives. The rules permit none.
    if (stream !== socket || this.#isClosing || !this.#pipelines.get(socket)?.isIdle) {
      socket.destroy();
      return;
    }
    this.#left.add(socket);
    socket.once('close', () => this.#left.delete(socket));
    const leaveMs = this.#rules.leaveMs ?? LEAVE_MS;
    const connection = new LeavingConnection({ request, socket, head, leaveMs });
    if (this.#hasTooManyFields(request)) connection.refuse(this.#tooManyFields(request));
    else this.#guard(() => serve(connection), socket);
  }

  #hasTooManyFields({ rawHeaders }: IncomingMessage): boolean {
    // Node keeps each field as two entries.
    return rawHeaders.length > 2 * (this.#rules.mostFields ?? Number.POSITIVE_INFINITY);
  }

  #tooManyFields(request: IncomingMessage): Refusal {
    return (
      this.#rules.refuseFields?.(request) ?? { status: 400, body: `headers are more than ${this.#rules.mostFields}` }
    );
  }

  #guard(act: () => void | Promise<void>, socket: Socket): void {
    const fail = (error: unknown) => {
      socket.destroy();
      this.#rules.report(error, socket);
    };
    try {
      act()?.catch(fail);
    } catch (error) {
      fail(error);
    }
  }

  readonly #refuseExpectation: Serve = (request, response) =>
    answer(request, response, this.#rules.refuseExpectation?.(request) ?? { status: 417, body: '' });

  readonly #refuseFields: Serve = (request, response) => answer(request, response, this.#tooManyFields(request));

  #onInvalid(error: NodeJS.ErrnoException, socket: Socket): void {
    const pipeline = this.#pipelines.get(socket);
    if (pipeline?.readsNoMore) {
      if (pipeline.mayEnd && !socket.writableEnded) endAndDestroy(socket);
      return;
    }
    // More bytes after the answer to invalid ones.
    if (socket.writableEnded && !socket.destroyed) return;
    if (error.code !== 'ERR_HTTP_REQUEST_TIMEOUT') this.#refuse(error, socket);
    else if (socket.bytesRead === 0) this.#closeUnlessUsed(socket);
    else if (!this.#rules.mayBeSlow?.(socket)) this.#refuse(error, socket);
  }

  /**
   * Closes a connection without an answer if its first byte does not come within `keepAliveTimeout`. HTTP clients open
   * connections ahead of need. A client that sends its first request at that moment would take a refusal for the answer.
   */
  #closeUnlessUsed(socket: Socket): void {
    // After a time in which this process stood still, immediates come after a read of every socket.
    const close = () => setImmediate(() => socket.bytesRead === 0 && socket.destroy());
    const timer = setTimeout(close, this.keepAliveTimeout);
    socket.once('close', () => clearTimeout(timer));
  }

  #refuse(error: NodeJS.ErrnoException, socket: Socket): void {
    const pipeline = this.#pipelines.get(socket);
    const mayAnswer = error.code !== 'ECONNRESET' && socket.writable && pipeline?.isUnanswered;
    const refusal = mayAnswer ? this.#invalid(error, socket) : undefined;
    if (refusal) endAndDestroy(socket, rawAnswer(refusal));
    else socket.destroy();
  }

  #invalid(error: NodeJS.ErrnoException, socket: Socket): Refusal | undefined {
    const { refuseInvalid } = this.#rules;
    return refuseInvalid ? refuseInvalid(error, socket) : { status: 400, body: '' };
  }
}

function answer(request: IncomingMessage, response: ServerResponse, refusal: Refusal): void {
  request.resume();
  answerRefusal(response, refusal);
}

function refuseConnect(connection: LeavingConnection): void {
  // RFC 9110 requires `Allow`. It is empty, because the target of CONNECT is another host, which has no methods here.
  connection.refuse({ status: 405, fields: { allow: '' }, body: '' });
}

/** Returns an answer as bytes. Node has no response for bytes that are not a request. */
function rawAnswer({ status, fields = {}, body }: Refusal): string {
  const head = Object.entries({ ...fields, 'content-length': Buffer.byteLength(body), connection: 'close' });
  const lines = head.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines}\r\n${body}`;
}
