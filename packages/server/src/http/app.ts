import { LIMITS } from '@cloche/contract';
import fastify, { type FastifyBaseLogger, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Authenticator } from '../api-keys/authenticator.ts';
import { AppError } from '../app-error.ts';
import type { Clock } from '../clock.ts';
import type { IdSource } from '../id-source.ts';
import type { Idempotency } from '../idempotency/idempotency.ts';
import { authenticateHeader, requireExtraScope, requireScope } from './authorize.ts';
import { deprecationHeaders } from './deprecation.ts';
import { errorResponse, JSON_TYPE, toAppError } from './error-response.ts';
import { execute, pathOf } from './execute.ts';
import { HttpMetrics } from './http-metrics.ts';
import { ClientGone, type InFlight, stopping } from './in-flight.ts';
import { KnownPaths } from './known-paths.ts';
import { answerClientError, answerOddRequests } from './raw-errors.ts';
import { readJson } from './read-json.ts';
import { REQUEST_ID_HEADER, requestIdOf } from './request-id.ts';
import { requestValidator } from './request-validator.ts';
import type { Route } from './route.ts';
import { registerServiceRoutes, SERVICE_PATHS } from './service-routes.ts';

/** A request that has not arrived whole by then is refused. */
const REQUEST_MS = 60_000;
/** Longer than the proxies in front keep a connection, so that they close it first. */
const KEEP_ALIVE_MS = 75_000;

export interface AppParts {
  readonly routes: readonly Route[];
  readonly authenticator: Authenticator;
  readonly idempotency: Idempotency;
  readonly inFlight: InFlight;
  readonly metrics: Registry;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly version: string;
  /** Rejects while sandboxes could not be served. */
  readonly check: (signal: AbortSignal) => Promise<void>;
}

/** The HTTP service: what the routes' operations declare, enforced in the order of the functions below. */
export async function buildApp(parts: AppParts): Promise<FastifyInstance> {
  const app = createApp(parts);
  const paths = new KnownPaths();
  addHooks(app, parts);
  answerErrors(app, paths);
  takeJsonOnly(app);
  for (const route of parts.routes) addRoute(app, route, parts);
  for (const { operation } of parts.routes) paths.add(operation.method, operation.path);
  for (const path of SERVICE_PATHS) paths.add('GET', path);
  await registerServiceRoutes(app, parts);
  answerOddRequests(app.server, parts.ids);
  return app;
}

function createApp({ log, ids }: AppParts): FastifyInstance {
  return fastify({
    loggerInstance: log as FastifyBaseLogger,
    disableRequestLogging: true,
    requestIdLogLabel: 'requestId',
    genReqId: (request) => requestIdOf(request.headers[REQUEST_ID_HEADER], ids),
    bodyLimit: LIMITS.bodyBytes,
    requestTimeout: REQUEST_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // The requests themselves are drained by `InFlight`.
    return503OnClosing: false,
    forceCloseConnections: true,
    // A missing Host is refused in the form of every other error.
    http: { maxHeaderSize: LIMITS.headerBytes, requireHostHeader: false },
    routerOptions: { maxParamLength: LIMITS.headerBytes, querystringParser: () => ({}) },
    clientErrorHandler: (error, socket) => answerClientError(error, socket, ids),
    frameworkErrors: (error, request, reply) => {
      reply.header(REQUEST_ID_HEADER, request.id);
      sendError(error, request, reply);
    },
  });
}

function addHooks(app: FastifyInstance, { clock, log, metrics, inFlight }: AppParts): void {
  const httpMetrics = new HttpMetrics(metrics, inFlight);
  app.decorateRequest('state');
  app.addHook('onRequest', async (request, reply) => {
    request.state = {
      receivedAt: clock.now(),
      operation: undefined,
      credential: undefined,
      errorCode: undefined,
      idempotency: undefined,
    };
    reply.header(REQUEST_ID_HEADER, request.id).header('x-content-type-options', 'nosniff');
    if (request.headers.host === undefined && request.raw.httpVersion === '1.1') {
      throw new AppError('invalid_request', 'headers.host is required', {
        details: { issues: [{ path: 'headers.host', message: 'is required' }] },
      });
    }
  });
  app.addHook('onResponse', async (request, reply) => {
    httpMetrics.observe(request.state, reply.statusCode, reply.elapsedTime / 1000);
    logOutcome(log, request, reply);
  });
}

/** One line a request: who, what, how it ended. Never a body, a query or a key. */
function logOutcome(log: Logger, request: FastifyRequest, reply: FastifyReply): void {
  const { operation, credential, errorCode, idempotency } = request.state;
  const level = reply.statusCode >= 500 ? 'error' : operation ? 'info' : 'debug';
  if (!log.isLevelEnabled(level)) return;
  const outcome = {
    requestId: request.id,
    operation: operation?.id,
    method: request.method,
    path: pathOf(request).slice(0, 200),
    status: reply.statusCode,
    durationMs: Math.round(reply.elapsedTime * 100) / 100,
    orgId: credential?.orgId,
    apiKeyId: credential?.apiKeyId,
    errorCode,
    idempotency,
  };
  log[level](outcome, 'request');
}

function answerErrors(app: FastifyInstance, paths: KnownPaths): void {
  app.setErrorHandler(sendError);
  app.setNotFoundHandler((request, reply) => {
    const allowed = paths.methodsOf(pathOf(request));
    const path = pathOf(request).slice(0, 200);
    if (allowed.length === 0) throw new AppError('not_found', `There is nothing at ${path}; see /openapi.json.`);
    const allow = allowed.join(', ');
    reply.header('allow', allow);
    throw new AppError('method_not_allowed', `${path} has no method ${request.method}; it has ${allow}.`);
  });
}

function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const appError = toAppError(error);
  // A request with a broken URL has not passed the hooks.
  const state = request.state as FastifyRequest['state'] | undefined;
  if (state) state.errorCode = error instanceof ClientGone ? 'client_gone' : appError.code;
  if (appError.code === 'internal' && !(error instanceof ClientGone)) request.log.error({ err: error }, 'failed');
  const { status, headers, body } = errorResponse(appError, request.id);
  reply.code(status).headers(headers).type(JSON_TYPE).send(JSON.stringify(body));
}

function takeJsonOnly(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    const charset = /;\s*charset\s*=\s*"?([^";\s]+)/i.exec(request.headers['content-type'] ?? '')?.[1];
    if (charset !== undefined && !/^utf-?8$/i.test(charset)) done(notJson(), undefined);
    else {
      try {
        // With `parseAs: 'buffer'` it is one.
        done(null, readJson(body as Buffer));
      } catch (error) {
        done(error as AppError, undefined);
      }
    }
  });
  app.addContentTypeParser('*', (_request, _payload, done) => done(notJson(), undefined));
}

function notJson(): AppError {
  return new AppError(
    'unsupported_media_type',
    'The body must be JSON in UTF-8: send it with Content-Type: application/json.',
  );
}

function addRoute(app: FastifyInstance, route: Route, parts: AppParts): void {
  const { operation } = route;
  const validate = requestValidator(operation);
  const deprecation = deprecationHeaders(operation);
  app.route({
    method: operation.method,
    url: operation.path.replace(/\{(\w+)\}/g, ':$1'),
    onRequest: async (request, reply) => {
      request.state.operation = operation;
      if (deprecation) reply.headers(deprecation(request.params as Record<string, string>));
      if (parts.inFlight.isDraining) {
        reply.header('connection', 'close');
        throw stopping();
      }
      const credential = await authenticateHeader(request.headers.authorization, parts.authenticator);
      request.state.credential = credential;
      requireScope(credential, operation.scope);
    },
    handler: (request, reply) => {
      if (request.state.credential) requireExtraScope(request.state.credential, operation, request.body);
      const query = request.raw.url?.split('?').slice(1).join('?') ?? '';
      const valid = validate({ params: request.params, query, headers: request.headers, body: request.body });
      return execute(route, { request, reply, valid }, parts);
    },
  });
}
