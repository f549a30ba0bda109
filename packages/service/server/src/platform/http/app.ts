import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { AuditLog } from '../audit-log/audit-log.ts';
import type { Refusals } from '../audit-log/refusals.ts';
import type { Clock } from '../base/clock.ts';
import type { DiskSpace } from '../base/disk-space.ts';
import type { IdSource } from '../base/id-source.ts';
import type { ResultMemoryLimit } from '../base/result-memory.ts';
import { CutOffError } from '../idempotency/held-claims.ts';
import type { Idempotency } from '../idempotency/idempotency.ts';
import type { Authenticator } from '../keys/authenticator.ts';
import type { Credential } from '../keys/credential.ts';
import type { Tracing } from '../tracing/tracing.ts';
import { auditRefusal } from './audited-route.ts';
import { requireExtraScope, requireOperationScope } from './authorize.ts';
import type { TransferLimits } from './bytes.ts';
import { addressOf, type Callers } from './callers.ts';
import { CheckKey } from './check-key.ts';
import { isOwnAddress, limitConnections } from './connection-limits.ts';
import { BearerKeys } from './credential-sources.ts';
import { deprecationHeaders } from './deprecation.ts';
import { execute } from './execute.ts';
import type { FindHostRouter } from './host-router.ts';
import { type InFlight, stopping } from './in-flight.ts';
import { createJsonApp, pathOf } from './json-app.ts';
import type { ListCursors } from './list-cursors.ts';
import { Outcomes } from './outcomes.ts';
import { addRateFields, type LimitRequests } from './request-limit.ts';
import { requestValidator } from './request-validator.ts';
import type { Route } from './route.ts';
import { registerServiceRoutes, type ServiceRoutesDeps } from './service-routes.ts';
import { addSignedDownloads, type SignedDownloads } from './signed-downloads.ts';
import { addSignedUploads, type SignedUploads } from './signed-uploads.ts';
import { endSpan, traceRequests } from './trace-requests.ts';
import type { TrustsProxy } from './trusted-proxies.ts';
import { holdContinue } from './uploads.ts';

/** Age of a request from which its key is checked again after its body has arrived. */
const LATE_BODY_MS = 1_000;

export interface AppDeps {
  readonly trustsProxy?: TrustsProxy;
  readonly findHostRouter?: FindHostRouter;
  readonly signedDownloads?: SignedDownloads;
  readonly signedUploads?: SignedUploads;
  readonly routes: readonly Route[];
  readonly authenticator: Authenticator;
  /** Default: one of its own. */
  readonly checkKey?: CheckKey;
  /** Believes the addresses of clients that protocols beside `/v1` name. */
  readonly callers?: Callers;
  /** Default: one of its own. */
  readonly outcomes?: Outcomes;
  readonly idempotency: Idempotency;
  /** Whether this server has been cut off from its database for so long that other servers may count it as dead. */
  readonly isFenced?: (() => boolean) | undefined;
  readonly inFlight: InFlight;
  readonly limitRequests?: LimitRequests;
  readonly transfers: TransferLimits;
  readonly resultMemoryLimit: ResultMemoryLimit;
  readonly space: DiskSpace;
  readonly cursors: ListCursors;
  /** Without these, requests have no audit events. */
  readonly auditLog?: AuditLog;
  readonly refusals?: Refusals;
  readonly metrics: Registry;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly tracing?: Tracing | undefined;
  readonly version: string;
  readonly check: ServiceRoutesDeps['check'];
  readonly readHostMetrics?: ServiceRoutesDeps['readHostMetrics'];
}

/** Dependencies of one route. */
interface RouteDeps extends AppDeps {
  readonly authenticate: (request: FastifyRequest) => Promise<Credential>;
}

/** Builds the HTTP service. Enforces what the routes' operations declare, in the order of `addRoute`. */
export async function buildApp(deps: AppDeps): Promise<FastifyInstance> {
  const authenticate = authenticatorOf(deps);
  const mayLearnMethods = async (request: FastifyRequest) => {
    if (pathOf(request).startsWith('/v1/')) await authenticate(request);
  };
  const { outcomes = new Outcomes(deps) } = deps;
  const app = createJsonApp({ ...deps, outcomes, mayLearnMethods });
  reportOutcomes(app, outcomes, deps);
  const routeDeps = { ...deps, authenticate };
  for (const route of deps.routes) if (!isUpload(route)) addRoute(app, route, routeDeps);
  await addUploads(app, routeDeps);
  if (deps.signedDownloads) addSignedDownloads(app, deps.signedDownloads, deps);
  await registerServiceRoutes(app, deps);
  const { trustsProxy } = deps;
  limitConnections(app.server, { isExempt: (address) => isOwnAddress(address) || !!trustsProxy?.(address, 0) });
  return app;
}

function reportOutcomes(app: FastifyInstance, outcomes: Outcomes, { refusals, callers }: AppDeps): void {
  app.addHook('onResponse', (request, reply, done) => {
    const { id: requestId, method, url, state } = request;
    const { statusCode: status, elapsedTime: durationMs } = reply;
    outcomes.note({ ...state, operation: state.operation?.id, requestId, method, url, status, durationMs });
    endSpan(request, reply);
    if (refusals) auditRefusal(refusals, request, callers);
    done();
  });
}

/** Registers uploads in a scope of their own, because their bodies are not parsed. */
async function addUploads(app: FastifyInstance, deps: RouteDeps): Promise<void> {
  const uploads = deps.routes.filter(isUpload);
  holdContinue(app.server, uploads, deps.findHostRouter);
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null, undefined));
    for (const route of uploads) addRoute(scope, route, deps);
    if (deps.signedUploads) addSignedUploads(scope, deps.signedUploads, deps);
  });
}

function isUpload({ kind }: Route): boolean {
  return kind === 'upload' || kind === 'receivedUpload';
}

function addRoute(app: FastifyInstance, route: Route, deps: RouteDeps): void {
  const { operation } = route;
  const { authenticate } = deps;
  const validate = requestValidator(operation);
  const deprecation = deprecationHeaders(operation);
  app.route({
    method: operation.method,
    url: operation.path.replace(/\{(\w+)\}/g, ':$1'),
    onRequest: async (request, reply) => {
      request.state.operation = operation;
      if (deprecation) reply.headers(deprecation(request.params));
      if (deps.inFlight.isDraining) {
        reply.header('connection', 'close');
        throw stopping();
      }
      if (deps.isFenced?.()) throw new CutOffError();
      request.state.keyChanges = deps.authenticator.changes;
      const credential = await authenticate(request);
      request.state.credential = credential;
      const rate = deps.limitRequests?.(credential);
      if (rate) await applyRate(reply, rate);
      requireOperationScope(credential, operation, request.params);
    },
    // A socket's response has no end at which a span could end.
    ...(deps.tracing && route.kind !== 'socket' && { preHandler: traceRequests(deps.tracing) }),
    handler: async (request, reply) => {
      if (mayHaveEnded(request, deps)) await authenticate(request);
      if (request.state.credential) requireExtraScope(request.state.credential, operation, request.body);
      const { params, headers, body } = request;
      const valid = validate({ params, query: queryOf(request), headers, body });
      return execute(route, { request, reply, valid }, deps);
    },
  });
}

async function applyRate(reply: FastifyReply, rate: NonNullable<ReturnType<LimitRequests>>): Promise<void> {
  const decision = await rate;
  if (!decision) return;
  addRateFields(reply, decision.headers);
  if (decision.refusal) throw decision.refusal;
}

function authenticatorOf(deps: AppDeps): RouteDeps['authenticate'] {
  const checkKey = deps.checkKey ?? new CheckKey({ sources: [new BearerKeys(deps.authenticator)], clock: deps.clock });
  return (request) => checkKey.check(request.headers, addressOf(request, deps.callers));
}

/** Returns whether the key may have ended since the request's headers arrived. The body can arrive much later. */
function mayHaveEnded({ state }: FastifyRequest, { authenticator, clock }: AppDeps): boolean {
  return state.keyChanges !== authenticator.changes || clock.now() - state.receivedAt >= LATE_BODY_MS;
}

/** Returns the query string without the question mark. */
function queryOf({ raw: { url = '' } }: FastifyRequest): string {
  const mark = url.indexOf('?');
  return mark === -1 ? '' : url.slice(mark + 1);
}
