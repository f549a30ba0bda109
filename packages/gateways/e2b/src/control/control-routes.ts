import { LIMITS, type SandboxId } from '@cloche/contract';
import { readJsonBodies } from '@cloche/kit/gateway-app';
import type { Sandbox } from '@cloche/sdk';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { JSON_BODIES } from '../body-bounds.ts';
import type { E2bDeps } from '../e2b-deps.ts';
import { clientOf, keyOf } from './client-of.ts';
import { CREATE_SCHEMA, type CreateRequest, createBody, equipmentOf, ignoredFields } from './create-request.ts';
import { METRICS_SCHEMA, type MetricsQuery, metricsOf } from './e2b-metrics.ts';
import { connection, detailed, listed } from './e2b-sandbox.ts';
import { IgnoredFields } from './ignored-fields.ts';
import { lifetimeRoutes } from './lifetime-routes.ts';
import { LIST_SCHEMA, type ListQuery, listSandboxes } from './list-sandboxes.ts';
import { type ById, liveSandbox } from './live-sandbox.ts';
import { logRoutes } from './log-routes.ts';
import { notYetRoutes } from './not-yet-routes.ts';
import { DEFAULT_TIMEOUT_S, SECOND_MS } from './pause-policy.ts';
import { secretRoutes } from './secret-routes.ts';

/** Registers what E2B's clients call at `E2B_API_URL`. */
export async function controlRoutes(app: FastifyInstance, deps: E2bDeps): Promise<void> {
  readJsonBodies(app, JSON_BODIES);
  await secretRoutes(app, deps);
  await notYetRoutes(app);
  await lifetimeRoutes(app, deps);
  await logRoutes(app, deps);
  const ignored = new IgnoredFields(deps.log);
  for (const [path, byDefault] of [
    ['/sandboxes', ['running']],
    ['/v2/sandboxes', undefined],
  ] as const) {
    app.post<{ Body: CreateRequest }>(path, { schema: CREATE_SCHEMA }, async (request, reply) => {
      ignored.note(ignoredFields(request.body));
      const sandbox = await createSandbox(request, deps);
      return reply.code(201).send(connection(sandbox.info, keyOf(request), deps));
    });
    app.get<{ Querystring: ListQuery }>(path, { schema: LIST_SCHEMA }, async (request, reply) => {
      const { sandboxes, nextToken } = await listSandboxes(clientOf(request, deps), request.query, byDefault);
      if (nextToken !== undefined) reply.header('x-next-token', nextToken);
      return sandboxes.map(listed);
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
}

/** Ids are opaque, so only the service can check them. */
function paramsOf({ params }: FastifyRequest<ById>) {
  return { sandboxId: params.sandboxID as SandboxId };
}

async function createSandbox(request: FastifyRequest<{ Body: CreateRequest }>, deps: E2bDeps): Promise<Sandbox> {
  const ttlMs = (request.body.timeout || DEFAULT_TIMEOUT_S) * SECOND_MS;
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
