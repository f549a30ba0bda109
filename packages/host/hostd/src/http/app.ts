import type { RequestListener } from 'node:http';
import { parsePlainJson } from '@cloche/node-support';
import { type HostdErrorBody, HostdHealth, type HostWarning, HostWarningList, SpawnedLanguage } from '@cloche/protocol';
import { messageValidator } from '@cloche/protocol/message-validator';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { type Static, Type } from 'typebox';
import { HostdError } from '../base/hostd-error.ts';
import type { MeasuredInstances } from '../instances/measured-instances.ts';
import { closedEarly } from './instance-params.ts';
import { addInstanceRoutes, addMeasurementRoutes, type InstanceRoutesDeps } from './instance-routes.ts';
import { openServer, SERVER_BOUNDS, type ServerBounds } from './open-server.ts';
import { addParkingRoutes, type ParkingRoutesDeps } from './parking-routes.ts';
import { timeTracedRequests } from './traced-requests.ts';
import { addVersionRoutes, type VersionRoutesDeps } from './version-routes.ts';

const MAX_BODY_BYTES = 64 * 1024;
/** Most values in the JSON of a body. */
const MAX_BODY_VALUES = 10_000;

const STATUS_OF_CODE = {
  bad_request: 400,
  template_not_found: 404,
  network_mode_unsupported: 422,
  no_capacity: 503,
  stopping: 503,
  launch_failed: 500,
  kernel_unavailable: 409,
  capture_refused: 422,
  instance_not_found: 404,
  version_in_use: 409,
  freeze_failed: 503,
  disk_not_found: 404,
  disk_in_use: 409,
  disk_broken: 422,
  disk_unkeepable: 422,
  internal: 500,
} as const;

const LanguageParams = Type.Object({ language: SpawnedLanguage });

export interface AppDeps extends InstanceRoutesDeps, ParkingRoutesDeps, VersionRoutesDeps {
  measured: MeasuredInstances;
  recordLanguage: (language: SpawnedLanguage) => void;
  health: () => Static<typeof HostdHealth>;
  /** Measures what keeps sandboxes from the network. */
  measureNetwork: (signal: AbortSignal) => Promise<HostWarning[]>;
  /** Returns the metrics in Prometheus' text format. */
  metrics: () => Promise<string>;
  log: Logger;
  /** Default: `SERVER_BOUNDS`. */
  bounds?: ServerBounds;
}

/** Creates the HTTP server of hostd. Every message is checked against the protocol before anything is done. */
export function createApp(deps: AppDeps): FastifyInstance {
  const { log, bounds = SERVER_BOUNDS } = deps;
  const app = Fastify({
    bodyLimit: MAX_BODY_BYTES,
    exposeHeadRoutes: false,
    serverFactory: (handle) => openServer(handle as RequestListener, bounds, (err) => log.error({ err })),
    // The server answers these itself.
    clientErrorHandler: () => undefined,
  }) as FastifyInstance;
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, text, done) => {
    try {
      done(null, parsePlainJson(String(text), MAX_BODY_VALUES));
    } catch (error) {
      done(badRequest(`the body is no JSON: ${(error as Error).message}`));
    }
  });
  app.setValidatorCompiler(({ schema }) => messageValidator(schema as Type.TSchema, badRequest));
  app.setSerializerCompiler(() => (answer) => JSON.stringify(answer));
  app.setErrorHandler((error, request, reply) => answerError(error, request, reply));
  app.setNotFoundHandler((_request, reply) => {
    reply.code(404).send(errorBody('bad_request', 'the operation does not exist'));
  });
  timeTracedRequests(app);
  app.addHook('onResponse', async (request, reply) => logOutcome(log, request, reply));
  addHostRoutes(app, deps);
  addInstanceRoutes(app, deps);
  addMeasurementRoutes(app, deps.measured);
  addParkingRoutes(app, deps);
  addVersionRoutes(app, deps);
  return app;
}

/** Adds the routes that concern the host as a whole. */
function addHostRoutes(app: FastifyInstance, { health, metrics, recordLanguage, measureNetwork }: AppDeps): void {
  app.get('/health', { schema: { response: { 200: HostdHealth } } }, async () => health());

  app.post('/warnings', { schema: { response: { 200: HostWarningList } } }, async (_request, reply) => ({
    warnings: await measureNetwork(closedEarly(reply)),
  }));

  app.get('/metrics', async (_request, reply) => reply.type('text/plain; charset=utf-8').send(await metrics()));

  app.put<{ Params: Static<typeof LanguageParams> }>(
    '/languages/:language',
    { schema: { params: LanguageParams } },
    async (request, reply) => {
      recordLanguage(request.params.language);
      return reply.code(204).send();
    },
  );
}

function badRequest(message: string): HostdError {
  return new HostdError('bad_request', message);
}

function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const known = toHostdError(error);
  request.failure = known;
  reply.code(STATUS_OF_CODE[known.code]).send(errorBody(known.code, known.message));
}

function toHostdError(error: unknown): HostdError {
  if (error instanceof HostdError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const isCallersFault =
    error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number' && error.statusCode < 500;
  return new HostdError(isCallersFault ? 'bad_request' : 'internal', message, { cause: error });
}

function errorBody(code: HostdError['code'], message: string): Static<typeof HostdErrorBody> {
  return { error: { code, message } };
}

declare module 'fastify' {
  interface FastifyRequest {
    failure?: HostdError;
  }
}

/** Logs one line for each operation; reads are logged at debug level. */
function logOutcome(log: Logger, request: FastifyRequest, reply: FastifyReply): void {
  const { failure, method, params, trace } = request;
  const outcome = {
    operation: `${method} ${request.routeOptions.url ?? 'unknown'}`,
    ...(params as object),
    status: reply.statusCode,
    durationMs: Math.round(reply.elapsedTime * 10) / 10,
    ...(trace && { traceId: trace.id }),
    ...(failure && { code: failure.code, err: failure }),
  };
  if (reply.statusCode >= 500) log.error(outcome);
  else if (method === 'GET') log.debug(outcome);
  else log.info(outcome);
}
