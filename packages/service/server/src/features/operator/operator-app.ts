import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { OWN_HEAD_SECONDS } from '../../platform/http/front.ts';
import { createJsonApp, type JsonAppDeps } from '../../platform/http/json-app.ts';
import { addOperatorRoutes, type OperatorDeps } from './operator-routes.ts';

export function buildOperatorApp(parts: OperatorDeps & JsonAppDeps): FastifyInstance {
  const app = createJsonApp({ ...parts, headSeconds: OWN_HEAD_SECONDS });
  addOperatorRoutes(app, parts);
  return app;
}

/**
 * Serves `app` on a Unix socket, and replaces a socket that a dead server left.
 *
 * SECURITY: every process that can connect is an operator, so only the server's user may access the socket and its
 * folder (operator.test.ts).
 */
export async function listenForOperator(app: FastifyInstance, socketPath: string): Promise<void> {
  mkdirSync(dirname(socketPath), { recursive: true, mode: 0o700 });
  rmSync(socketPath, { force: true });
  await app.listen({ path: socketPath });
  chmodSync(socketPath, 0o600);
}
