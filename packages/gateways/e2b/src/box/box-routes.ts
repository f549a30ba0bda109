import { basicCredentials } from '@cloche/kit';
import type { FastifyInstance } from 'fastify';
import type { E2bDeps } from '../e2b-deps.ts';
import { sessionOf } from './box-session.ts';
import { connectRoutes } from './connect-routes.ts';
import { fileOf, fileRoutes } from './file-routes.ts';
import { refuseWhilePaused } from './paused-box.ts';
import { signedFileOf } from './signed-file-routes.ts';
import type { SignedUrls } from './signed-urls.ts';

/** Registers what E2B's clients call at port 49983 of a sandbox. */
export async function boxRoutes(app: FastifyInstance, deps: E2bDeps, urls: SignedUrls): Promise<void> {
  refuseWhilePaused(app, deps);
  await app.register(async (scope) => connectRoutes(scope, deps));
  // Needs no token, as in E2B. The answer is the same for each organization's sandbox.
  app.get('/health', async ({ headers }, reply) => {
    const state = await deps.stateOf(String(headers['e2b-sandbox-id']));
    if (state && !state.isPaused) return reply.code(204).send();
    // E2B's clients search the message for these words to find out that the sandbox does not run.
    return reply.code(502).send({ code: 502, message: 'The sandbox was not found.' });
  });
  await app.register(async (scope) =>
    fileRoutes(scope, (request, name) => {
      const signed = urls.find(request.raw);
      if (signed) return signedFileOf(signed, request, deps, name);
      const { path, username = basicCredentials(request.headers.authorization)?.name } = request.query;
      return fileOf(sessionOf(request, deps), path, name, username);
    }),
  );
}
