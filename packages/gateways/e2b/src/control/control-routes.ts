import { LIMITS, type SandboxId } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import { readJsonBodies } from '@cloche/kit/gateway-app';
import { isClocheError, type Sandbox } from '@cloche/sdk';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { JSON_BODIES } from '../body-bounds.ts';
import type { E2bDeps } from '../e2b-deps.ts';
import { clientOf, keyOf } from './client-of.ts';
import { CREATE_SCHEMA, type CreateRequest, createBody, equipmentOf, ignoredFields } from './create-request.ts';
import { METRICS_SCHEMA, type MetricsQuery, metricsOf } from './e2b-metrics.ts';
import { connection, detailed, isLive, listed } from './e2b-sandbox.ts';
import { IgnoredFields } from './ignored-fields.ts';
import { LIST_SCHEMA, type ListQuery, listSandboxes } from './list-sandboxes.ts';
import { logRoutes } from './log-routes.ts';
import { notYetRoutes } from './not-yet-routes.ts';
import { secretRoutes } from './secret-routes.ts';

const SECONDS = 1000;
/** Keeps a lifetime up to the end of the longest session within it, when `/v1` looks at it a moment later. */
const CLOCK_MARGIN_MS = 1000;
/** Lifetime of a creation and of a connection without `timeout`. */
const DEFAULT_TIMEOUT_S = 300;
/** What E2B adds by a refresh without `duration`. */
const DEFAULT_REFRESH_S = 15;

interface ById {
  Params: { sandboxID: string };
}
interface WithTimeout extends ById {
  Body: { timeout?: number; duration?: number } | null;
}

const TIMEOUT_SCHEMA = {
  body: {
    type: ['object', 'null'],
    properties: {
      timeout: { type: 'integer', minimum: 0, maximum: 86_400 },
      duration: { type: 'integer', minimum: 0, maximum: 86_400 },
    },
  },
};

/** Registers what E2B's clients call at `E2B_API_URL`. */
export async function controlRoutes(app: FastifyInstance, deps: E2bDeps): Promise<void> {
  readJsonBodies(app, JSON_BODIES);
  await secretRoutes(app, deps);
  await notYetRoutes(app);
  await logRoutes(app, deps);
  const ignored = new IgnoredFields(deps.log);
  for (const path of ['/sandboxes', '/v2/sandboxes']) {
    app.post<{ Body: CreateRequest }>(path, { schema: CREATE_SCHEMA }, async (request, reply) => {
      ignored.note(ignoredFields(request.body));
      const sandbox = await createSandbox(request, deps);
      return reply.code(201).send(connection(sandbox.info, keyOf(request), deps));
    });
    app.get<{ Querystring: ListQuery }>(path, { schema: LIST_SCHEMA }, async (request, reply) => {
      const { sandboxes, nextToken } = await listSandboxes(clientOf(request, deps), request.query);
      if (nextToken !== undefined) reply.header('x-next-token', nextToken);
      return sandboxes.map(listed);
    });
    app.post<WithTimeout>(`${path}/:sandboxID/connect`, { schema: TIMEOUT_SCHEMA }, async (request) => {
      const sandbox = await liveSandbox(request, deps);
      await extendFor(sandbox, request.body?.timeout);
      return connection(sandbox.info, keyOf(request), deps);
    });
  }
  // An organization is a team. Its key is that of the request, which the client has already.
  app.get('/teams', async (request) => {
    const [project] = await clientOf(request, deps).projects.list({ limit: 1 });
    const teamID = project?.orgId ?? '';
    return [{ teamID, name: teamID, apiKey: '', isDefault: true }];
  });
  app.get<ById>('/sandboxes/:sandboxID', async (request) =>
    detailed((await liveSandbox(request, deps)).info, keyOf(request), deps),
  );
  app.delete<ById>('/sandboxes/:sandboxID', async (request, reply) => {
    await (await liveSandbox(request, deps)).kill();
    return reply.code(204).send();
  });
  app.get<ById & { Querystring: MetricsQuery }>(
    '/sandboxes/:sandboxID/metrics',
    { schema: METRICS_SCHEMA },
    async (request) => {
      const { metrics } = await clientOf(request, deps).call('getSandboxMetrics', { params: paramsOf(request) });
      return metricsOf(metrics, request.query);
    },
  );
  app.post<WithTimeout>('/sandboxes/:sandboxID/timeout', { schema: TIMEOUT_SCHEMA }, async (request, reply) => {
    const ttlMs = (request.body?.timeout ?? 0) * SECONDS;
    if (ttlMs === 0) await (await liveSandbox(request, deps)).kill();
    else await deps.overwriteTtl(request.raw, keyOf(request), request.params.sandboxID, ttlMs);
    return reply.code(204).send();
  });
  app.post<WithTimeout>('/sandboxes/:sandboxID/refreshes', { schema: TIMEOUT_SCHEMA }, async (request, reply) => {
    await extend(await liveSandbox(request, deps), request.body?.duration ?? DEFAULT_REFRESH_S);
    return reply.code(204).send();
  });
}

/** Ids are opaque, so only the service can check them. */
function paramsOf({ params }: FastifyRequest<ById>) {
  return { sandboxId: params.sandboxID as SandboxId };
}

async function createSandbox(request: FastifyRequest<{ Body: CreateRequest }>, deps: E2bDeps): Promise<Sandbox> {
  const ttlMs = (request.body.timeout || DEFAULT_TIMEOUT_S) * SECONDS;
  const key = request.headers['idempotency-key'];
  const options = typeof key === 'string' ? { idempotencyKey: key } : {};
  const body = { ...createBody(request.body), ttlMs: Math.min(ttlMs, LIMITS.createTtlMaxMs) };
  const sandbox = await clientOf(request, deps).sandboxes.create(body, options);
  try {
    await deps.equip(request.raw, keyOf(request), sandbox.id, equipmentOf(request.body));
    return ttlMs <= LIMITS.createTtlMaxMs ? sandbox : await sandbox.setTtl(ttlMs);
  } catch (error) {
    await sandbox.kill().catch(() => undefined);
    throw error;
  }
}

/** @throws GatewayError 404 for a sandbox that has ended, which E2B does not remember. */
async function liveSandbox(request: FastifyRequest<ById>, deps: E2bDeps): Promise<Sandbox> {
  const sandbox = await clientOf(request, deps).sandboxes.get(request.params.sandboxID);
  if (!isLive(sandbox.info)) throw new GatewayError(404, `The sandbox ${sandbox.id} has ended.`);
  return sandbox;
}

/**
 * Extends for a connection, and wakes a paused sandbox. A key that may not extend connects too, unless it names a
 * timeout.
 */
async function extendFor(sandbox: Sandbox, timeoutS: number | undefined): Promise<void> {
  const lifetimeS = timeoutS ?? DEFAULT_TIMEOUT_S;
  if (sandbox.info.paused) {
    await sandbox.resume({ ttlMs: Math.min(lifetimeS * SECONDS, LIMITS.sessionMaxMs) });
    return;
  }
  const extended = extend(sandbox, lifetimeS);
  await extended.catch((error: unknown) => {
    if (timeoutS !== undefined || !isClocheError(error, 'forbidden')) throw error;
  });
}

/** Sets the lifetime unless the sandbox lives longer already, as far as the longest session permits. */
async function extend(sandbox: Sandbox, timeoutS: number): Promise<void> {
  const { sessionStartedAt, expiresAt } = sandbox.info;
  const last = Date.parse(sessionStartedAt) + LIMITS.sessionMaxMs - CLOCK_MARGIN_MS;
  const end = Math.min(Date.now() + timeoutS * SECONDS, last);
  if (end > Date.parse(expiresAt)) await sandbox.setTtl(end - Date.now());
}
