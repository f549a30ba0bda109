import type { JsonValue } from '@bufbuild/protobuf';
import { GatewayError } from '@cloche/kit';
import { Code, ConnectError, createConnectRouter, createContextValues } from '@connectrpc/connect';
import { contentTypeRegExp } from '@connectrpc/connect/protocol-connect';
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from '@connectrpc/connect-node';
import type { FastifyInstance } from 'fastify';
import { BODY_BYTES, JSON_BOUNDS } from '../body-bounds.ts';
import type { E2bDeps } from '../e2b-deps.ts';
import { Filesystem } from '../generated/filesystem/filesystem_pb.js';
import { Process } from '../generated/process/process_pb.js';
import { boundedFrames, boundedMessage } from './bounded-frames.ts';
import { CALL_SIGNAL, CONNECTION } from './connect-error.ts';
import { filesystemService } from './filesystem-service.ts';
import { withEntries } from './listed-entries.ts';
import { processService } from './process-service.ts';

/** Type of streams of JSON messages. */
const STREAM_TYPE = 'application/connect+json';

/** Registers the calls of Connect, which E2B's clients use for processes and for the tree of files. */
export async function connectRoutes(app: FastifyInstance, deps: E2bDeps): Promise<void> {
  // Connect would read 4 GiB. The limit of the app does not hold, because Connect reads the bodies itself.
  const options = { readMaxBytes: BODY_BYTES, acceptCompression: [], grpc: false, grpcWeb: false };
  const router = createConnectRouter(options);
  router.service(Process, processService(deps));
  router.service(Filesystem, filesystemService(deps));
  app.addContentTypeParser(contentTypeRegExp, (_request, _body, done) => done(null, undefined));
  app.removeContentTypeParser('application/json');
  // Connect parses the messages itself, because it ignores fields that it does not know.
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, bytes, done) => {
    try {
      done(null, boundedMessage(Buffer.from(bytes), JSON_BOUNDS));
    } catch (error) {
      done(new GatewayError(400, (error as Error).message));
    }
  });
  app.addContentTypeParser(STREAM_TYPE, (_request, body, done) => done(null, boundedFrames(body, JSON_BOUNDS)));
  for (const handler of router.handlers) {
    app.all(handler.requestPath, async ({ raw, body }, reply) => {
      reply.hijack();
      const values = createContextValues().set(CONNECTION, raw.socket);
      // Sound: Connect takes what the parsers above return, the bytes of a body, although its type does not say so.
      const call = universalRequestFromNodeRequest(raw, reply.raw, body as JsonValue | undefined, values);
      values.set(CALL_SIGNAL, call.signal);
      try {
        await universalResponseToNodeResponse(withEntries(await handler(call), values), reply.raw);
      } catch (error) {
        reply.raw.destroy();
        if (ConnectError.from(error).code !== Code.Aborted) deps.log.error(error, 'A call of E2B failed.');
      }
    });
  }
}
