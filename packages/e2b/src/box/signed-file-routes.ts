import type { FastifyInstance } from 'fastify';
import type { E2bDeps } from '../e2b-deps.ts';
import { E2bError } from '../e2b-error.ts';
import { FailureLimit } from '../failure-limit.ts';
import type { KnownTokens } from '../known-tokens.ts';
import { sessionWith, userOf } from './box-session.ts';
import { fileOf, fileRoutes, type OpenFile } from './file-routes.ts';

const SECOND_MS = 1000;
/** A SHA-256 in base64 without padding, as the clients write it. */
const SIGNATURE = /^v1_[A-Za-z0-9+/]{43}$/;

/**
 * Registers the URLs of `uploadUrl` and `downloadUrl`. They leave out the path of `E2B_SANDBOX_URL` and the id of the
 * sandbox.
 */
export async function signedFileRoutes(app: FastifyInstance, deps: E2bDeps, tokens: KnownTokens): Promise<void> {
  const limit = new FailureLimit();
  const open: OpenFile = (request, name) => {
    const { path, username = '', signature = '', signature_expiration: expiration } = request.query;
    if (!SIGNATURE.test(signature)) throw refused('The URL has no signature: make it with uploadUrl or downloadUrl.');
    if (expiration !== undefined && !(Number(expiration) * SECOND_MS > Date.now())) {
      throw refused('The URL has expired: make another one.');
    }
    userOf(username);
    const waitMs = limit.waitMs(request.ip);
    if (waitMs > 0) {
      const seconds = String(Math.ceil(waitMs / SECOND_MS));
      throw new E2bError(429, 'Too many URLs had a wrong signature; try again later.', { 'retry-after': seconds });
    }
    const operation = request.method === 'POST' ? 'write' : 'read';
    const access = tokens.find({ path: path ?? '', operation, user: username, expiration, signature });
    if (!access) {
      limit.failed(request.ip);
      throw refused('The signature fits no sandbox that runs: make the URL again with uploadUrl or downloadUrl.');
    }
    return fileOf(sessionWith(access, deps.apiUrl()), path, name, username);
  };
  await fileRoutes(app, open);
}

function refused(message: string): E2bError {
  return new E2bError(401, message);
}
