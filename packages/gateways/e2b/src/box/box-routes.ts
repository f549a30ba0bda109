import { createContextValues } from '@connectrpc/connect';
import { fastifyConnectPlugin } from '@connectrpc/connect-fastify';
import type { FastifyInstance } from 'fastify';
import type { E2bDeps } from '../e2b-deps.ts';
import { E2bError } from '../e2b-error.ts';
import { Filesystem } from '../generated/filesystem/filesystem_pb.js';
import { Process } from '../generated/process/process_pb.js';
import { BODY_BYTES, JSON_BOUNDS } from '../read-json.ts';
import { boundedFrames, boundedMessage } from './bounded-frames.ts';
import { basicUser, sessionOf } from './box-session.ts';
import { CONNECTION } from './connect-error.ts';
import { fileOf, fileRoutes } from './file-routes.ts';
import { filesystemService } from './filesystem-service.ts';
import { processService } from './process-service.ts';
import { signedFileOf } from './signed-file-routes.ts';
import type { SignedUrls } from './signed-urls.ts';

/** Type of streams of JSON messages. */
const STREAM_TYPE = 'application/connect+json';
type ConnectOptions = Parameters<typeof fastifyConnectPlugin>[1];

async function connectRoutes(app: FastifyInstance, deps: E2bDeps): Promise<void> {
  const options: ConnectOptions = {
    // Connect would read 4 GiB. The limit of the app does not hold, because Connect reads the bodies itself.
    readMaxBytes: BODY_BYTES,
    acceptCompression: [],
    grpc: false,
    grpcWeb: false,
    contextValues: ({ raw }) => createContextValues().set(CONNECTION, raw.socket),
    routes: (router) => {
      router.service(Process, processService(deps));
      router.service(Filesystem, filesystemService(deps));
    },
  };
  await new Promise<void>((resolve, reject) => {
    // Not by `register`, so that the parsers of this scope replace those of the plugin.
    fastifyConnectPlugin(app, options, (error) => (error ? reject(error) : resolve()));
  });
  app.removeContentTypeParser(['application/json', STREAM_TYPE]);
  // Connect parses the messages itself, because it ignores fields that it does not know.
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, bytes, done) => {
    try {
      done(null, boundedMessage(Buffer.from(bytes), JSON_BOUNDS));
    } catch (error) {
      done(new E2bError(400, (error as Error).message));
    }
  });
  app.addContentTypeParser(STREAM_TYPE, (_request, body, done) => done(null, boundedFrames(body, JSON_BOUNDS)));
}

/** Registers what E2B's clients call at port 49983 of a sandbox. */
export async function boxRoutes(app: FastifyInstance, deps: E2bDeps, urls: SignedUrls): Promise<void> {
  await app.register(async (scope) => connectRoutes(scope, deps));
  // Needs no token, as in E2B. The answer is the same for each organization's sandbox.
  app.get('/health', async ({ headers }, reply) => {
    if (await deps.isLive(String(headers['e2b-sandbox-id']))) return reply.code(204).send();
    // E2B's clients search the message for these words to find out that the sandbox has ended.
    return reply.code(502).send({ code: 502, message: 'The sandbox was not found.' });
  });
  await app.register(async (scope) =>
    fileRoutes(scope, (request, name) => {
      const signed = urls.find(request.raw);
      if (signed) return signedFileOf(signed, request, deps, name);
      const { path, username = basicUser(request.headers.authorization) } = request.query;
      return fileOf(sessionOf(request, deps), path, name, username);
    }),
  );
}
