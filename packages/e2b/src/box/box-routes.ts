import { fastifyConnectPlugin } from '@connectrpc/connect-fastify';
import type { FastifyInstance } from 'fastify';
import { isLive } from '../control/e2b-sandbox.ts';
import type { E2bDeps } from '../e2b-deps.ts';
import { E2bError } from '../e2b-error.ts';
import { Filesystem } from '../generated/filesystem/filesystem_pb.js';
import { Process } from '../generated/process/process_pb.js';
import { basicUser, isGone, sessionOf } from './box-session.ts';
import { fileOf, fileRoutes } from './file-routes.ts';
import { filesystemService } from './filesystem-service.ts';
import { processService } from './process-service.ts';

/** Registers what E2B's clients call at port 49983 of a sandbox. */
export async function boxRoutes(app: FastifyInstance, deps: E2bDeps): Promise<void> {
  await app.register(fastifyConnectPlugin, {
    routes: (router) => {
      router.service(Process, processService(deps));
      router.service(Filesystem, filesystemService(deps));
    },
  });
  app.get('/health', async (request, reply) => {
    const { cloche, sandboxId } = sessionOf(request, deps);
    const { info } = await cloche.sandboxes.get(sandboxId).catch((error: unknown) => {
      throw isGone(error) ? new E2bError(502, 'The sandbox has ended.') : error;
    });
    return reply.code(isLive(info) ? 204 : 502).send();
  });
  await app.register(async (scope) =>
    fileRoutes(scope, (request, name) => {
      const { path, username = basicUser(request.headers.authorization) } = request.query;
      return fileOf(sessionOf(request, deps), path, name, username);
    }),
  );
}
