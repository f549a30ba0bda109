import { GatewayError } from '@cloche/kit';
import { ClocheError } from '@cloche/sdk';
import type { FastifyInstance } from 'fastify';
import type { E2bDeps } from '../e2b-deps.ts';
import { PAUSED } from '../e2b-error.ts';

/** Requests that `/v1`, or this gateway, begins to answer from records although the sandbox is paused. */
const ANSWERED: ReadonlySet<string | undefined> = new Set([
  '/process.Process/List',
  '/process.Process/SendSignal',
  '/process.Process/Connect',
  '/filesystem.Filesystem/GetWatcherEvents',
  '/filesystem.Filesystem/RemoveWatcher',
  '/contexts',
  '/contexts/:id',
]);

/** Ends a stream of the SDK with a pause, as E2B does. Without it, the stream goes on when something resumes the sandbox. */
export const UNTIL_PAUSE = {
  onPaused(): never {
    throw new ClocheError('sandbox_paused', PAUSED);
  },
};

/** Refuses, as E2B does, what a paused sandbox would answer without a wake, unless requests wake it. */
export function refuseWhilePaused(app: FastifyInstance, deps: Pick<E2bDeps, 'stateOf'>): void {
  app.addHook('onRequest', async ({ headers, routeOptions }) => {
    if (!ANSWERED.has(routeOptions.url)) return;
    const state = await deps.stateOf(String(headers['e2b-sandbox-id']));
    if (state?.isPaused && state.wake === 'explicit') throw new GatewayError(502, PAUSED);
  });
}
