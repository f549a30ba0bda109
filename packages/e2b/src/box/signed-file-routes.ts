import type { FastifyInstance } from 'fastify';
import type { E2bDeps } from '../e2b-deps.ts';
import { sessionWith } from './box-session.ts';
import { fileOf, fileRoutes } from './file-routes.ts';
import type { SignedUrls } from './signed-urls.ts';

/**
 * Registers the URLs of `uploadUrl` and `downloadUrl`. They leave out the path of `E2B_SANDBOX_URL` and the id of the
 * sandbox. `urls` has checked each request before it comes here.
 */
export async function signedFileRoutes(app: FastifyInstance, deps: E2bDeps, urls: SignedUrls): Promise<void> {
  await fileRoutes(app, ({ raw, headers }, name) => {
    const { access, path, user } = urls.opened(raw);
    return fileOf(sessionWith(access, deps.apiUrl(), headers), path || undefined, name, user);
  });
}
