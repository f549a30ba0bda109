import { LIMITS, type SandboxId } from '@cloche/contract';
import type { Sandbox } from '@cloche/sdk';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { E2bDeps } from '../e2b-deps.ts';
import { E2bError } from '../e2b-error.ts';
import { readJsonBodies } from '../read-json.ts';
import { clientOf, keyOf } from './client-of.ts';
import { CREATE_SCHEMA, type CreateRequest, createBody } from './create-request.ts';
import { metricsOf } from './e2b-metrics.ts';
import { connection, detailed, isLive, listed } from './e2b-sandbox.ts';
import { notYetRoutes } from './not-yet-routes.ts';
import { secretRoutes } from './secret-routes.ts';

const SECONDS = 1000;
/** Lifetime that E2B documents for a creation without `timeout`. */
const DEFAULT_TIMEOUT_S = 15;

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
  readJsonBodies(app);
  await secretRoutes(app, deps);
  await notYetRoutes(app);
  for (const path of ['/sandboxes', '/v2/sandboxes']) {
    app.post<{ Body: CreateRequest }>(path, { schema: CREATE_SCHEMA }, async (request, reply) => {
      const sandbox = await createSandbox(request, deps);
      return reply.code(201).send(connection(sandbox.info, keyOf(request), deps));
    });
    app.get<{ Querystring: ListQuery }>(path, async (request) => listSandboxes(request, deps));
    app.post<WithTimeout>(`${path}/:sandboxID/connect`, { schema: TIMEOUT_SCHEMA }, async (request) => {
      const sandbox = await liveSandbox(request, deps);
      await extend(sandbox, request.body?.timeout ?? 0);
      return connection(sandbox.info, keyOf(request), deps);
    });
  }
  app.get<ById>('/sandboxes/:sandboxID', async (request) =>
    detailed((await liveSandbox(request, deps)).info, keyOf(request), deps),
  );
  app.delete<ById>('/sandboxes/:sandboxID', async (request, reply) => {
    await (await liveSandbox(request, deps)).kill();
    return reply.code(204).send();
  });
  app.get<ById>('/sandboxes/:sandboxID/metrics', async (request) =>
    metricsOf((await clientOf(request, deps).call('getSandboxMetrics', { params: paramsOf(request) })).metrics),
  );
  app.post<WithTimeout>('/sandboxes/:sandboxID/timeout', { schema: TIMEOUT_SCHEMA }, async (request, reply) => {
    const ttlMs = (request.body?.timeout ?? 0) * SECONDS;
    if (ttlMs === 0) await (await liveSandbox(request, deps)).kill();
    else await clientOf(request, deps).call('setSandboxTtl', { params: paramsOf(request), body: { ttlMs } });
    return reply.code(204).send();
  });
  app.post<WithTimeout>('/sandboxes/:sandboxID/refreshes', { schema: TIMEOUT_SCHEMA }, async (request, reply) => {
    await extend(await liveSandbox(request, deps), request.body?.duration ?? 0);
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
  if (ttlMs <= LIMITS.createTtlMaxMs) return sandbox;
  try {
    return await sandbox.setTtl(ttlMs);
  } catch (error) {
    await sandbox.kill().catch(() => undefined);
    throw error;
  }
}

/** @throws E2bError 404 for a sandbox that has ended, which E2B does not remember. */
async function liveSandbox(request: FastifyRequest<ById>, deps: E2bDeps): Promise<Sandbox> {
  const sandbox = await clientOf(request, deps).sandboxes.get(request.params.sandboxID);
  if (!isLive(sandbox.info)) throw new E2bError(404, `The sandbox ${sandbox.id} has ended.`);
  return sandbox;
}

/** Sets the lifetime unless the sandbox lives longer already. */
async function extend(sandbox: Sandbox, timeoutS: number): Promise<void> {
  if (Date.now() + timeoutS * SECONDS > Date.parse(sandbox.info.expiresAt)) await sandbox.setTtl(timeoutS * SECONDS);
}

interface ListQuery {
  readonly metadata?: string;
  readonly state?: string | readonly string[];
}

async function listSandboxes(request: FastifyRequest<{ Querystring: ListQuery }>, deps: E2bDeps) {
  const { metadata = '', state = 'running' } = request.query;
  const states = [state].flat().flatMap((each) => each.split(','));
  if (!states.includes('running')) return [];
  // Clients encode each label and then the list of them.
  const pairs = [...new URLSearchParams(metadata)].map((pair) => pair.map(decodeLabel));
  const labels = Object.fromEntries(pairs);
  const sandboxes = await clientOf(request, deps).sandboxes.list({ metadata: labels });
  return sandboxes
    .map(({ info }) => info)
    .filter(isLive)
    .map(listed);
}

/** @throws E2bError 400 */
function decodeLabel(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new E2bError(400, `The label ${text} in metadata has an invalid percent escape.`);
  }
}
