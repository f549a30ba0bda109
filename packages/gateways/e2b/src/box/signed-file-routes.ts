import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { E2bDeps } from '../e2b-deps.ts';
import { sessionWith } from './box-session.ts';
import { fileOf, fileRoutes } from './file-routes.ts';
import type { SignedAccess, SignedUrls } from './signed-urls.ts';

/**
 * Registers the URLs of `uploadUrl` and `downloadUrl`. They leave out the path of `E2B_SANDBOX_URL` and the id of the
 * sandbox. `urls` has checked each request before it comes here.
 */
export async function signedFileRoutes(app: FastifyInstance, deps: E2bDeps, urls: SignedUrls): Promise<void> {
  await fileRoutes(app, (request, name) => signedFileOf(urls.opened(request.raw), request, deps, name));
}

/** Returns the file of a signed URL. @param name of a file in a form */
export function signedFileOf(
  { access, path, user }: SignedAccess,
  { headers }: FastifyRequest,
  deps: E2bDeps,
  name: string | undefined,
) {
  return fileOf(sessionWith(access, deps.apiUrl(), headers), path || undefined, name, user);
}
