import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { type SecretAnswers, SecretQuestions } from '@cloche/protocol';
import type { FastifyInstance } from 'fastify';
import { OWN_HEAD_SECONDS } from '../../platform/http/front.ts';
import { createJsonApp, type JsonAppDeps } from '../../platform/http/json-app.ts';
import { bodyValidator } from '../../platform/http/request-validator.ts';
import type { FindSecretValues } from './find-secret-values.ts';

/** Returns the app that gives the values of secrets to the egress gateway. */
export function buildSecretApp(deps: JsonAppDeps & { readonly values: FindSecretValues }): FastifyInstance {
  const app = createJsonApp({ ...deps, headSeconds: OWN_HEAD_SECONDS });
  const readQuestions = bodyValidator<SecretQuestions>(SecretQuestions);
  app.post('/values', (request): Promise<SecretAnswers> => deps.values.find(readQuestions(request.body)));
  return app;
}

/**
 * Serves `app` on a Unix socket, and replaces a socket that a dead server left.
 *
 * SECURITY: setup gives the folder to the server's user and to the group of egress, which the socket inherits. No other
 * user but root may connect (e2e/security/privileges.test.ts).
 */
export async function listenForEgress(app: FastifyInstance, socketPath: string): Promise<void> {
  mkdirSync(dirname(socketPath), { recursive: true, mode: 0o700 });
  rmSync(socketPath, { force: true });
  await app.listen({ path: socketPath });
  chmodSync(socketPath, 0o660);
}
