import {
  CapturedVersion,
  CapturedVersionList,
  CaptureInstance,
  DeriveVersion,
  HistoryQuery,
  HostdErrorBody,
  HostdHealth,
  Instance,
  InstanceHistory,
  InstanceList,
  InstanceUseList,
  LaunchedInstance,
  LaunchQuery,
  LaunchSpec,
  MadeVersionList,
  MeasuredInstanceList,
  MeasureInstances,
  ProvideKernel,
  RemoveVersionQuery,
  StartedLanguage,
  StoppedInstance,
  StopQuery,
  Stopwatch,
  TemplateVersionList,
  TIMINGS_HEADER,
  VersionId,
} from '@cloche/protocol';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { HostdError } from '../base/hostd-error.ts';
import type { Captures } from '../capture/captures.ts';
import type { VersionRemoval } from '../capture/version-removal.ts';
import { SANDBOX_ID_PATTERN } from '../instance/instance-key.ts';
import type { Instances } from '../instances/instances.ts';
import type { MeasuredInstances } from '../instances/measured-instances.ts';
import type { OnStep } from '../launch/launcher.ts';
import type { CapturedVersions } from '../storage/captured-versions.ts';
import type { LaunchableVersions } from '../storage/launchable-versions.ts';

const MAX_BODY_BYTES = 64 * 1024;

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
  internal: 500,
} as const;

const InstanceParams = Type.Object({
  sandboxId: Type.String({ pattern: SANDBOX_ID_PATTERN }),
  generation: Type.String({ pattern: '^[1-9][0-9]{0,8}$' }),
});

const VersionParams = Type.Object({ versionId: VersionId });

const LanguageParams = Type.Object({ language: StartedLanguage });

export interface AppDeps {
  noteLanguage: (language: StartedLanguage) => void;
  noteBusyClaim: () => void;
  instances: Instances;
  measured: MeasuredInstances;
  templates: LaunchableVersions;
  captured: CapturedVersions;
  captures: Captures;
  removal: VersionRemoval;
  health: () => Static<typeof HostdHealth>;
  /** Returns the metrics in Prometheus' text format. */
  metrics: () => Promise<string>;
  log: Logger;
}

/** Creates the HTTP server of hostd. Every message is checked against the protocol before anything is done. */
export function createApp({
  instances,
  measured,
  templates,
  captured,
  captures,
  removal,
  noteLanguage,
  noteBusyClaim,
  health,
  metrics,
  log,
}: AppDeps): FastifyInstance {
  const app = Fastify({ bodyLimit: MAX_BODY_BYTES, exposeHeadRoutes: false });
  app.setValidatorCompiler(({ schema }) => validator(schema as Type.TSchema));
  app.setSerializerCompiler(() => (answer) => JSON.stringify(answer));
  app.setErrorHandler((error, request, reply) => answerError(error, request, reply));
  app.setNotFoundHandler((_request, reply) => {
    reply.code(404).send(errorBody('bad_request', 'no such operation'));
  });
  timeTracedRequests(app);
  app.addHook('onResponse', async (request, reply) => logOutcome(log, request, reply));

  app.get('/health', { schema: { response: { 200: HostdHealth } } }, async () => health());

  app.get('/metrics', async (_request, reply) => reply.type('text/plain; charset=utf-8').send(await metrics()));

  app.get('/template-versions', { schema: { response: { 200: TemplateVersionList } } }, async () => ({
    templateVersions: (await templates.listBuilt()).map(({ manifest }) => manifest),
  }));

  app.get('/instances', { schema: { response: { 200: InstanceList } } }, async () => ({
    instances: instances.list(),
  }));

  app.get<{ Params: Static<typeof InstanceParams> }>(
    '/instances/:sandboxId/:generation',
    { schema: { params: InstanceParams, response: { 200: Instance } } },
    async ({ params }) => instances.get(nameOf(params)),
  );

  app.get('/uses', { schema: { response: { 200: InstanceUseList } } }, async () => ({ uses: await measured.uses() }));

  app.post<{ Body: MeasureInstances }>(
    '/measurements',
    { schema: { body: MeasureInstances, response: { 200: MeasuredInstanceList } } },
    async ({ body }) => ({ measured: await measured.measure(body.instances) }),
  );

  app.get<{ Params: Static<typeof InstanceParams>; Querystring: HistoryQuery }>(
    '/instances/:sandboxId/:generation/measurements',
    { schema: { params: InstanceParams, querystring: HistoryQuery, response: { 200: InstanceHistory } } },
    async ({ params, query }) => measured.history(nameOf(params), Number(query.fromMs ?? 0)),
  );

  app.put<{ Params: Static<typeof InstanceParams>; Querystring: LaunchQuery; Body: LaunchSpec }>(
    '/instances/:sandboxId/:generation',
    {
      schema: {
        params: InstanceParams,
        querystring: LaunchQuery,
        body: LaunchSpec,
        response: { 200: LaunchedInstance, default: HostdErrorBody },
      },
    },
    async (request, reply) => {
      if (request.query.starts === 'busy') noteBusyClaim();
      return instances.launch(nameOf(request.params), request.body, closedEarly(reply), request.trace?.onStep);
    },
  );

  app.post<{ Params: Static<typeof InstanceParams>; Body: ProvideKernel }>(
    '/instances/:sandboxId/:generation/kernels',
    { schema: { params: InstanceParams, body: ProvideKernel } },
    async (request, reply) => {
      await instances.provideKernel(nameOf(request.params));
      return reply.code(204).send();
    },
  );

  app.put<{ Params: Static<typeof LanguageParams> }>(
    '/languages/:language',
    { schema: { params: LanguageParams } },
    async (request, reply) => {
      noteLanguage(request.params.language);
      return reply.code(204).send();
    },
  );

  app.delete<{ Params: Static<typeof InstanceParams>; Querystring: StopQuery }>(
    '/instances/:sandboxId/:generation',
    { schema: { params: InstanceParams, querystring: StopQuery, response: { 200: StoppedInstance } } },
    async (request) => {
      const { gone, use } = await instances.stop(nameOf(request.params));
      if (request.query.until === 'gone') await gone;
      return use ? { use } : {};
    },
  );

  app.post<{ Params: Static<typeof InstanceParams>; Body: CaptureInstance }>(
    '/instances/:sandboxId/:generation/capture',
    { schema: { params: InstanceParams, body: CaptureInstance, response: { 200: CapturedVersion } } },
    async (request, reply) => captures.capture(nameOf(request.params), request.body, closedEarly(reply)),
  );

  app.get('/captured-versions', { schema: { response: { 200: CapturedVersionList } } }, async () => ({
    versions: captured.list(),
  }));

  app.post<{ Body: DeriveVersion }>(
    '/captured-versions',
    { schema: { body: DeriveVersion, response: { 200: CapturedVersion } } },
    async ({ body }) => captures.derive(body),
  );

  app.get('/made-versions', { schema: { response: { 200: MadeVersionList } } }, async () => ({
    versions: captured.listMade(),
  }));

  app.delete<{ Params: Static<typeof VersionParams>; Querystring: RemoveVersionQuery }>(
    '/captured-versions/:versionId',
    { schema: { params: VersionParams, querystring: RemoveVersionQuery } },
    async ({ params, query }, reply) => {
      await removal.remove(params.versionId, query.madeAt === undefined ? undefined : Number(query.madeAt));
      return reply.code(204).send();
    },
  );

  return app;
}

function nameOf({ sandboxId, generation }: Static<typeof InstanceParams>) {
  return { sandboxId, generation: Number(generation) };
}

/** Returns a signal that aborts when the caller closes the connection before it has its answer. */
function closedEarly(reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) controller.abort(new HostdError('launch_failed', 'the caller disconnected'));
  });
  return controller.signal;
}

/** Makes a validator for Fastify whose error says where a message is invalid. */
function validator(schema: Type.TSchema) {
  const compiled = Compile(schema);
  return (value: unknown) => {
    if (compiled.Check(value)) return { value };
    const [first] = compiled.Errors(value);
    const where = first?.instancePath === '' ? 'the message' : first?.instancePath;
    return { error: new HostdError('bad_request', `${where} ${first?.message}`) };
  };
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
    trace?: RequestTrace | undefined;
    failure?: HostdError;
  }
}

interface RequestTrace {
  readonly id: string;
  readonly stopwatch: Stopwatch;
  readonly onStep: OnStep;
}

/** Tells the server what each of its traced requests took. */
function timeTracedRequests(app: FastifyInstance): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const id = /^00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/.exec(String(request.headers.traceparent))?.[1];
    if (id !== undefined) {
      const stopwatch = new Stopwatch();
      request.trace = { id, stopwatch, onStep: (step, durationMs) => stopwatch.note(step, durationMs) };
    }
    done();
  });
  app.addHook('onSend', (request, reply, _payload, done) => {
    if (request.trace) reply.header(TIMINGS_HEADER, request.trace.stopwatch.read());
    done();
  });
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
