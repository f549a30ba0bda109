import type { IncomingHttpHeaders, IncomingMessage, RequestListener } from 'node:http';
import { type ErrorCode, LIMITS } from '@cloche/contract';
import { GuardedServer, hasBody, joinPieces, type LeavingConnection, TurnBudget } from '@cloche/node-support';
import { finishBody } from '@cloche/runtime/byte-transfer';
import fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import type { Logger } from 'pino';
import { AppError } from '../base/app-error.ts';
import type { Clock } from '../base/clock.ts';
import { LineLimit } from '../base/line-limit.ts';
import { errorResponse, JSON_TYPE, toAppError } from './error-response.ts';
import { BEFORE_KEY } from './front.ts';
import type { FindHostRouter } from './host-router.ts';
import { ClientGoneError } from './in-flight.ts';
import { KnownPaths } from './known-paths.ts';
import { RawErrors, type RawErrorsDeps } from './raw-errors.ts';
import { readJson } from './read-json.ts';
import { REQUEST_ID_HEADER, requestIdOf } from './request-id.ts';
import type { TrustsProxy } from './trusted-proxies.ts';
import { answerUpgrade } from './upgrades.ts';
import { isAwaitingContinue, isUploading } from './uploads.ts';

/** Time for a request to arrive completely before it is refused. */
const REQUEST_MS = 60_000;
/** Pieces of chunked bodies that are handled in one turn of the event loop; each takes a microsecond or two. */
const PIECES_PER_TURN = 1_000;
/** Most lines in a minute about failures of connections, which any client may cause. */
const FAILURE_LINES = 60;
/** Errors that refuse a body by its size or type before it has arrived. */
const BODY_UNREAD: ReadonlySet<ErrorCode> = new Set(['payload_too_large', 'unsupported_media_type']);
/** Status for logs and metrics only: the client is gone and does not receive it. */
const CLIENT_GONE_STATUS = 499;

const SECOND_MS = 1000;
const HTTP_OPTIONS = {
  maxHeaderSize: BEFORE_KEY.headBytes,
  // Node looks for late requests this often.
  connectionsCheckingInterval: (BEFORE_KEY.seconds * SECOND_MS) / 4,
  // The app refuses a missing Host itself, in the form of every other error.
  requireHostHeader: false,
  requestTimeout: REQUEST_MS,
};

export interface JsonAppDeps extends RawErrorsDeps {
  readonly clock: Clock;
  readonly log: Logger;
  /** Serves the requests for other hosts before this app sees them. */
  readonly findHostRouter?: FindHostRouter;
  /** Default: no proxy is trusted. */
  readonly trustsProxy?: TrustsProxy;
  /** Seconds for a request's head to arrive. Default: that of strangers. */
  readonly headSeconds?: number;
  /** Rejects a request that may not learn which methods a path has. */
  readonly mayLearnMethods?: (request: FastifyRequest) => Promise<void>;
}

/**
 * Creates an app without routes: JSON requests and responses, an id on every response, and errors in the catalogue's
 * form.
 */
export function createJsonApp(deps: JsonAppDeps): FastifyInstance {
  const app = createApp(deps);
  identify(app, deps);
  answerErrors(app);
  refuseUnrouted(app, deps);
  takeJsonOnly(app);
  return app;
}

export function pathOf(request: FastifyRequest): string {
  return request.url.split('?', 1)[0] ?? '';
}

function createApp(deps: JsonAppDeps): FastifyInstance {
  const { log, ids, trustsProxy } = deps;
  return fastify({
    loggerInstance: log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    genReqId: (request) => requestIdOf(request.headers[REQUEST_ID_HEADER], ids),
    ...(trustsProxy && { trustProxy: trustsProxy }),
    bodyLimit: LIMITS.bodyBytes,
    // `InFlight` drains the requests.
    return503OnClosing: false,
    forceCloseConnections: true,
    serverFactory: (handle: RequestListener) => openServer(deps, handle),
    routerOptions: { maxParamLength: LIMITS.headerBytes, querystringParser: () => ({}) },
    // The server answers these itself.
    clientErrorHandler: () => undefined,
    frameworkErrors: (error, request, reply) => {
      reply.header(REQUEST_ID_HEADER, request.id);
      sendError(error, request, reply);
    },
  });
}

/** Creates the server. The found routers serve their requests, the app all others. */
function openServer(deps: JsonAppDeps, handle: RequestListener): GuardedServer {
  const { findHostRouter: find, headSeconds = BEFORE_KEY.seconds, log } = deps;
  const errors = new RawErrors(deps);
  const lines = new LineLimit({
    most: FAILURE_LINES,
    onLeftOut: (failures) => log.error({ failures }, 'more failures of connections were not logged'),
  });
  const pieces = new TurnBudget(PIECES_PER_TURN);
  return new GuardedServer(
    { ...HTTP_OPTIONS, headersTimeout: headSeconds * SECOND_MS },
    {
      serve(request, response) {
        // Before anything waits: tiny chunks that nothing reads yet take far more memory than their bytes.
        if (request.headers['transfer-encoding'] !== undefined) joinPieces(request, pieces);
        const router = find?.(request);
        if (router) return router.handle(request, response);
        handle(request, response as Parameters<RequestListener>[1]);
      },
      mayUpgrade(request) {
        if (!find || !isWebSocket(request)) return false;
        const router = find(request);
        return router ? router.upgrade !== undefined : request.method === 'GET';
      },
      upgrade(connection: LeavingConnection) {
        const router = find?.(connection.request);
        if (router) return router.upgrade?.(connection);
        answerUpgrade(connection, handle);
      },
      connect: (connection) => connection.refuse(errors.connect(connection.request)),
      refuseInvalid: (error) => errors.invalid(error),
      mostFields: BEFORE_KEY.headFields,
      refuseFields: (request) => errors.fields(request),
      // An upload has no total time limit. It ends when no byte arrives for too long.
      mayBeSlow: isUploading,
      refuseExpectation: (request) => errors.expectation(request),
      report: (error) => lines.hasRoom() && log.error({ err: error }, 'a connection failed'),
    },
  );
}

function isWebSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === 'websocket';
}

function identify(app: FastifyInstance, { clock }: JsonAppDeps): void {
  app.decorateRequest('state');
  app.addHook('onRequest', (request, reply, done) => {
    request.state = {
      receivedAt: clock.now(),
      operation: undefined,
      credential: undefined,
      keyChanges: 0,
      errorCode: undefined,
      isClientsBound: false,
      idempotency: undefined,
      audit: undefined,
      span: undefined,
    };
    reply.header(REQUEST_ID_HEADER, request.id).header('x-content-type-options', 'nosniff');
    if (request.headers.host === undefined && request.raw.httpVersion === '1.1') {
      throw new AppError('invalid_request', 'headers.host is required', {
        details: { issues: [{ path: 'headers.host', message: 'is required' }] },
      });
    }
    done();
  });
}

function answerErrors(app: FastifyInstance): void {
  app.setErrorHandler(sendError);
}

/**
 * Responds to requests without a route before their bodies are read. The framework would parse the bodies first, and
 * would refuse unknown methods with errors of its own.
 */
function refuseUnrouted(app: FastifyInstance, { mayLearnMethods }: JsonAppDeps): void {
  const paths = new KnownPaths();
  app.addHook('onRoute', ({ method, url }) => {
    for (const each of [method].flat()) paths.add(each, url);
  });
  const refuse = async (request: FastifyRequest, reply: FastifyReply) => {
    const allowed = paths.methodsOf(pathOf(request));
    const path = pathOf(request).slice(0, 200);
    if (allowed.length === 0)
      throw new AppError('not_found', `The path ${path} does not exist; /openapi.json lists all paths.`);
    await mayLearnMethods?.(request);
    const allow = allowed.join(', ');
    reply.header('allow', allow);
    throw new AppError('method_not_allowed', `${path} does not support ${request.method}; use ${allow}.`);
  };
  app.addHook('onRequest', (request, reply, done) => {
    if (request.is404) refuse(request, reply).catch(done);
    else done();
  });
}

function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  // A request with a malformed URL has not passed the hooks, which set its state.
  const state = request.state as FastifyRequest['state'] | undefined;
  if (error instanceof ClientGoneError) {
    if (state) state.errorCode = 'client_gone';
    reply.code(CLIENT_GONE_STATUS).send();
    return;
  }
  const appError = toAppError(error);
  if (state) {
    state.errorCode = appError.code;
    state.isClientsBound = appError.isClientsBound;
  }
  if (appError.code === 'internal') request.log.error({ err: error }, 'failed');
  if (BODY_UNREAD.has(appError.code) || state?.operation?.upload) takeRest(request, reply);
  const { status, headers, body } = errorResponse(appError, request.id);
  reply.code(status).headers(headers).type(JSON_TYPE).send(JSON.stringify(body));
}

/**
 * Reads the rest of the body. Closing the connection while the client still writes could lose the response.
 * `REQUEST_MS` limits how long the client may write.
 */
function takeRest(request: FastifyRequest, reply: FastifyReply): void {
  if (isAwaitingContinue(request.raw)) {
    // The client waits for `100 Continue`, which this response denies.
    reply.header('connection', 'close');
    return;
  }
  reply.removeHeader('connection');
  finishBody(request.raw);
}

function takeJsonOnly(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    try {
      requirePlainUtf8(request.headers);
      // Sound: `parseAs: 'buffer'` makes it a buffer.
      done(null, readJson(body as Buffer, request.state.operation?.bodyValues ?? LIMITS.bodyValues));
    } catch (error) {
      done(error as AppError, undefined);
    }
  });
  // Clients name the types of bodies that they do not send.
  app.addContentTypeParser('*', ({ headers }, _payload, done) =>
    hasBody(headers) ? done(notJson(), undefined) : done(null, undefined),
  );
}

function requirePlainUtf8(headers: IncomingHttpHeaders): void {
  const charset = /;\s*charset\s*=\s*"?([^";\s]+)/i.exec(headers['content-type'] ?? '')?.[1] ?? 'utf-8';
  const encoding = headers['content-encoding'] ?? 'identity';
  if (!/^utf-?8$/i.test(charset) || encoding.toLowerCase() !== 'identity') throw notJson();
}

function notJson(): AppError {
  return new AppError(
    'unsupported_media_type',
    'The body must be JSON in UTF-8, not compressed: send it with Content-Type: application/json.',
  );
}
