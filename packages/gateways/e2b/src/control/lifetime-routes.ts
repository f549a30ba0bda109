import { LIMITS, type PausePolicy } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import { KeyCounts } from '@cloche/node-support';
import { isClocheError, type Sandbox } from '@cloche/sdk';
import type { FastifyInstance } from 'fastify';
import type { E2bDeps } from '../e2b-deps.ts';
import { keyOf } from './client-of.ts';
import { connection } from './e2b-sandbox.ts';
import { type ById, liveSandbox } from './live-sandbox.ts';
import { DEFAULT_TIMEOUT_S, FLAG, filesOnly, SECOND_MS, TIMEOUT } from './pause-policy.ts';

/** Keeps a lifetime up to the end of the longest session within it, when `/v1` looks at it a moment later. */
const CLOCK_MARGIN_MS = 1000;
/** Lifetime of a refresh or a resume without a time, in seconds. */
const SHORT_TIMEOUT_S = 15;

interface WithTimeout extends ById {
  Body: { timeout?: number; duration?: number; memory?: boolean | null } | null;
}

const TIMEOUT_SCHEMA = {
  body: { type: ['object', 'null'], properties: { timeout: TIMEOUT, duration: TIMEOUT, memory: FLAG } },
};

/** Registers what changes how long a sandbox runs: timeouts, refreshes, connections, pauses and resumes. */
export async function lifetimeRoutes(app: FastifyInstance, deps: E2bDeps): Promise<void> {
  const schema = TIMEOUT_SCHEMA;
  for (const path of ['/sandboxes', '/v2/sandboxes']) {
    app.post<WithTimeout>(`${path}/:sandboxID/connect`, { schema }, async (request, reply) => {
      const { timeout, memory } = request.body ?? {};
      const sandbox = await liveSandbox(request, deps);
      const isWoken = await connect(sandbox, timeout, filesOnly(memory));
      return reply.code(isWoken ? 201 : 200).send(connection(sandbox.info, keyOf(request), deps));
    });
  }
  // Of several requests at once, each is answered as the one that is first.
  const pauses = new KeyCounts<string>();
  app.post<WithTimeout>('/sandboxes/:sandboxID/pause', { schema }, async (request, reply) => {
    const arrivedAt = Date.now();
    const isOverlapping = pauses.of(request.params.sandboxID) > 0;
    using _ = pauses.add(request.params.sandboxID);
    const sandbox = await liveSandbox(request, deps);
    const { paused } = sandbox.info;
    const wasPaused = paused !== undefined && Date.parse(paused.at) < arrivedAt;
    if (wasPaused && !isOverlapping) throw new GatewayError(409, `The sandbox ${sandbox.id} is already paused.`);
    await pauseNow(sandbox, filesOnly(request.body?.memory));
    return reply.code(204).send();
  });
  const resumes = new KeyCounts<string>();
  app.post<WithTimeout>('/sandboxes/:sandboxID/resume', { schema }, async (request, reply) => {
    const arrivedAt = Date.now();
    const { timeout = SHORT_TIMEOUT_S, memory } = request.body ?? {};
    const isOverlapping = resumes.of(request.params.sandboxID) > 0;
    using _ = resumes.add(request.params.sandboxID);
    const sandbox = await liveSandbox(request, deps);
    const { paused, resumed } = sandbox.info;
    const isPaused = paused !== undefined || (await deps.stateOf(sandbox.id))?.isPaused === true;
    const isWoken = resumed !== undefined && (isOverlapping || Date.parse(resumed.at) >= arrivedAt);
    if (!isPaused && !isWoken) throw new GatewayError(409, `The sandbox ${sandbox.id} is already running.`);
    await wake(sandbox, timeout, filesOnly(memory));
    return reply.code(201).send(connection(sandbox.info, keyOf(request), deps));
  });
  app.post<WithTimeout>('/sandboxes/:sandboxID/timeout', { schema }, async (request, reply) => {
    const ttlMs = (request.body?.timeout ?? 0) * SECOND_MS;
    if (ttlMs === 0) await end(await liveSandbox(request, deps));
    else await deps.overwriteTtl(request.raw, keyOf(request), request.params.sandboxID, ttlMs);
    return reply.code(204).send();
  });
  app.post<WithTimeout>('/sandboxes/:sandboxID/refreshes', { schema }, async (request, reply) => {
    await extend(await liveSandbox(request, deps), request.body?.duration ?? SHORT_TIMEOUT_S);
    return reply.code(204).send();
  });
}

/**
 * Wakes a paused sandbox, or else makes its lifetime longer. A key that may not extend connects too, unless it names a
 * timeout. Returns whether it was paused.
 */
async function connect(sandbox: Sandbox, timeoutS: number | undefined, memory: { memory?: 'drop' }): Promise<boolean> {
  const lifetimeS = timeoutS ?? DEFAULT_TIMEOUT_S;
  try {
    if (!sandbox.info.paused) {
      await extend(sandbox, lifetimeS);
      return false;
    }
  } catch (error) {
    if (timeoutS === undefined && isClocheError(error, 'forbidden')) return false;
    // It was paused since it was read.
    if (!isClocheError(error, 'sandbox_paused')) throw error;
  }
  await wake(sandbox, lifetimeS, memory);
  return true;
}

/** Wakes a sandbox. A lifetime of 0 is that of its policy, because it would end at once. */
async function wake(sandbox: Sandbox, timeoutS: number, memory: { memory?: 'drop' }): Promise<void> {
  const ttlMs = Math.min(timeoutS * SECOND_MS, LIMITS.sessionMaxMs - CLOCK_MARGIN_MS);
  await sandbox.resume({ ...memory, ...(ttlMs > 0 && { ttlMs }) });
}

/** Sets the lifetime unless the sandbox lives longer already, as far as the longest session permits. */
async function extend(sandbox: Sandbox, timeoutS: number): Promise<void> {
  const { paused, sessionStartedAt, expiresAt } = sandbox.info;
  if (paused) throw hasNoTimeout(sandbox);
  const last = Date.parse(sessionStartedAt) + LIMITS.sessionMaxMs - CLOCK_MARGIN_MS;
  const to = Math.min(Date.now() + timeoutS * SECOND_MS, last);
  if (to > Date.parse(expiresAt)) await sandbox.setTtl(to - Date.now());
}

/**
 * Pauses a sandbox, whatever runs in it. Unless the client drops its memory, the service may, when it needs the room. A
 * client takes 409 for a sandbox that was paused already.
 */
async function pauseNow(sandbox: Sandbox, memory: Pick<PausePolicy, 'memory'>): Promise<void> {
  await sandbox.pause({ memory: 'prefer', ...memory, force: true }).catch((error: unknown) => {
    throw isClocheError(error, 'conflict') ? new GatewayError(400, error.message) : error;
  });
}

/** Does what a timeout does that is over. */
async function end(sandbox: Sandbox): Promise<void> {
  const { pause, paused } = sandbox.info;
  if (pause.onExpiry) await pauseNow(sandbox, { memory: pause.memory });
  else if (paused) throw hasNoTimeout(sandbox);
  else await sandbox.kill();
}

function hasNoTimeout({ id }: Sandbox): GatewayError {
  return new GatewayError(409, `The sandbox ${id} is paused, so that it has no timeout; connect to it first.`);
}
