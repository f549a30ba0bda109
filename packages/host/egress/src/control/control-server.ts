import { once } from 'node:events';
import { chmodSync, rmSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { SANDBOX_SLOTS } from '@cloche/layout';
import { GuardedServer, parsePlainJson } from '@cloche/node-support';
import {
  type DecisionPage,
  DecisionQuery,
  EGRESS_PROTOCOL_VERSION,
  type EgressErrorBody,
  GatedSandbox,
  GatedSandboxList,
  MAX_DECISIONS_WAIT_MS,
} from '@cloche/protocol';
import { messageValidator } from '@cloche/protocol/message-validator';
import Fastify, { type FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { type Static, Type } from 'typebox';
import type { RecentDecisions } from '../decisions/recent-decisions.ts';
import type { GatedSandboxes } from '../sandboxes/gated-sandboxes.ts';
import { peerUid } from '../socket-options.ts';

/** Bytes and values of the longest possible list: all slots of a host, each with the largest policy. */
const MAX_BODY_BYTES = SANDBOX_SLOTS * 17 * 1024;
const MAX_BODY_VALUES = SANDBOX_SLOTS * 80;
/** Time in which a request must arrive whole. Its answer may take longer. */
const REQUEST_MS = 60_000;
const SERVER_OPTIONS = { requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS };
/** Unanswered requests of a connection, and header fields of a request. */
const MOST_PENDING = 2;
const MOST_FIELDS = 256;

const AddressParams = Type.Object({ address: GatedSandboxList.properties.sandboxes.items.properties.address });

export interface ControlServerDeps {
  socketPath: string;
  sandboxes: GatedSandboxes;
  authorityCertificate: string;
  registry: Registry;
  decisions: RecentDecisions;
  log: Logger;
  /** Returns whether a user may connect; by default only root. Tests run as their own user. */
  isTrusted?: (uid: number | undefined) => boolean;
}

/**
 * Serves the requests of the egress protocol on a Unix socket. Replaces a socket that a crashed egress has left behind.
 *
 * SECURITY: the server runs as the same user as egress, so the folder's mode does not keep it out. The kernel is asked
 * for the user of each peer (control-server.test.ts).
 */
export async function openControlServer(deps: ControlServerDeps): Promise<FastifyInstance> {
  const { socketPath, isTrusted = (uid) => uid === 0 } = deps;
  const app = createApp(deps);
  app.server.prependListener('connection', (socket) => {
    if (!isTrusted(peerUid(socket))) socket.destroy();
  });
  rmSync(socketPath, { force: true });
  await app.listen({ path: socketPath });
  chmodSync(socketPath, 0o600);
  return app;
}

function createApp(deps: ControlServerDeps): FastifyInstance {
  const { sandboxes, authorityCertificate, registry, decisions } = deps;
  const app = openApp(deps);
  app.get('/health', async () => ({ status: 'ready', protocolVersion: EGRESS_PROTOCOL_VERSION, authorityCertificate }));

  app.get('/lifetime', async (request, reply) => {
    reply.hijack();
    reply.raw.writeHead(200);
    reply.raw.flushHeaders();
    await once(request.raw, 'close');
  });

  app.get('/sandboxes', async () => ({ sandboxes: sandboxes.list() }));

  app.put<{ Body: GatedSandboxList }>('/sandboxes', { schema: { body: GatedSandboxList } }, async (request, reply) => {
    sandboxes.replaceAll(request.body.sandboxes);
    return reply.code(204).send();
  });

  app.put<{ Params: Static<typeof AddressParams>; Body: GatedSandbox }>(
    '/sandboxes/:address',
    { schema: { params: AddressParams, body: GatedSandbox } },
    async ({ params, body }, reply) => {
      sandboxes.put(params.address, body);
      return reply.code(204).send();
    },
  );

  app.delete<{ Params: Static<typeof AddressParams> }>(
    '/sandboxes/:address',
    { schema: { params: AddressParams } },
    async ({ params }, reply) => {
      sandboxes.delete(params.address);
      return reply.code(204).send();
    },
  );

  app.get<{ Querystring: DecisionQuery }>(
    '/decisions',
    { schema: { querystring: DecisionQuery } },
    async ({ query, raw }): Promise<DecisionPage> => {
      const { afterSeq, sandboxId, waitMs = 0 } = query;
      const range = { sandboxId, ...(afterSeq !== undefined && { afterSeq: Number(afterSeq) }) };
      const wait = AbortSignal.timeout(Math.min(Number(waitMs), MAX_DECISIONS_WAIT_MS));
      const gone = new AbortController();
      raw.socket.once('close', () => gone.abort());
      if (Number(waitMs) > 0) await decisions.wait(range, AbortSignal.any([wait, gone.signal]));
      return decisions.read(range);
    },
  );

  app.get('/metrics', async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()));
  return app;
}

/** Creates an app without routes. */
function openApp({ log }: ControlServerDeps): FastifyInstance {
  const report = (err: unknown) => log.error({ err }, 'a connection of the control socket failed');
  const bounds = { mostPending: MOST_PENDING, mostFields: MOST_FIELDS };
  const app = Fastify({
    bodyLimit: MAX_BODY_BYTES,
    exposeHeadRoutes: false,
    forceCloseConnections: true,
    serverFactory: (handle) =>
      new GuardedServer(SERVER_OPTIONS, { serve: handle as RequestListener, report, ...bounds }),
    // The server answers these itself.
    clientErrorHandler: () => undefined,
  }) as FastifyInstance;
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, text, done) => {
    try {
      done(null, parsePlainJson(String(text), MAX_BODY_VALUES));
    } catch (error) {
      done(error as Error);
    }
  });
  app.setValidatorCompiler(({ schema }) => messageValidator(schema as Type.TSchema, (message) => new Error(message)));
  app.setErrorHandler<Error>((error, _request, reply) => {
    const body: Static<typeof EgressErrorBody> = { error: { code: 'bad_request', message: error.message } };
    reply.code(400).send(body);
  });
  return app;
}
