import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { createJsonApp, type JsonAppParts } from '../http/json-app.ts';
import { addOperatorRoutes, type OperatorParts } from './operator-routes.ts';

export function buildOperatorApp(parts: OperatorParts & JsonAppParts): FastifyInstance {
  const app = createJsonApp(parts);
  addOperatorRoutes(app, parts);
  return app;
}

/**
 * Serves `app` on a Unix socket, in the place of one that a server left when it died.
 *
 * SECURITY: whoever can connect is an operator, so the socket and its folder are the server's user's alone
 * (operator.test.ts).
 */
export async function listenForOperator(app: FastifyInstance, socketPath: string): Promise<void> {
  mkdirSync(dirname(socketPath), { recursive: true, mode: 0o700 });
  rmSync(socketPath, { force: true });
  await app.listen({ path: socketPath });
  chmodSync(socketPath, 0o600);
}
