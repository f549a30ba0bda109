import type { IncomingMessage, ServerResponse } from 'node:http';
import { GatewayError } from '@cloche/kit';
import { gatewayApp, readJsonBodies } from '@cloche/kit/gateway-app';
import type { LeavingConnection, Refusal } from '@cloche/node-support';
import type { FastifyInstance } from 'fastify';
import { apiKeyOf } from './api-key.ts';
import { ChannelSockets } from './channels/channel-sockets.ts';
import { KernelMessages } from './channels/kernel-messages.ts';
import { MAX_CONNECTIONS } from './channels/shared-kernel.ts';
import { jupyterError } from './jupyter-error.ts';
import { type JupyterDeps, JupyterState } from './rest/jupyter-state.ts';
import { kernelRoutes } from './rest/kernel-routes.ts';
import { sessionRoutes } from './rest/session-routes.ts';
import { specRoutes } from './rest/spec-routes.ts';

export type { JupyterDeps } from './rest/jupyter-state.ts';

const BODY_BYTES = 1024 * 1024;
/** Most values of a body. */
const MAX_VALUES = 2_000;
/** The version, and logos, for which browsers send no key. */
const PUBLIC = /^\/(?:api\/?(?:\?|$)|kernelspecs\/)/;
const CHANNELS = /^\/api\/kernels\/([^/?]+)\/channels(?:\?|$)/;

/**
 * Answers Jupyter's clients as a kernel gateway at `/jupyter` (`JUPYTER_GATEWAY_URL`). Translates what they send to
 * requests of `/v1` with the key of the client, so that scopes, quotas and audit apply as to every client.
 */
export class JupyterRouter {
  readonly #state: JupyterState;
  readonly #app: FastifyInstance;
  readonly #sockets: ChannelSockets;

  private constructor(state: JupyterState, app: FastifyInstance) {
    this.#state = state;
    this.#app = app;
    this.#sockets = new ChannelSockets(state.log);
  }

  static async open(deps: JupyterDeps): Promise<JupyterRouter> {
    const state = new JupyterState(deps);
    const app = buildApp(state);
    await app.ready();
    return new JupyterRouter(state, app);
  }

  matches({ url = '' }: IncomingMessage): boolean {
    const { prefix } = this.#state;
    return url.startsWith(prefix) && (url.length === prefix.length || '/?'.includes(url.charAt(prefix.length)));
  }

  /** Returns the front of a request, as the service's table of them names it. */
  frontOf(request: IncomingMessage): '/jupyter' | '/jupyter, version and logos' {
    const isPublic = request.method === 'GET' && PUBLIC.test(this.#pathOf(request));
    return isPublic ? '/jupyter, version and logos' : '/jupyter';
  }

  /** Returns the API key of a request; undefined if it needs none. @throws GatewayError 401 */
  keyOf(request: IncomingMessage): string | undefined {
    return this.frontOf(request) === '/jupyter' ? apiKeyOf(request) : undefined;
  }

  /** Returns the answer to a request that is refused, as Jupyter's clients read it. */
  refusalOf(_request: IncomingMessage, error: unknown): Refusal {
    const { status, message, headers } = jupyterError(error, this.#state.log);
    const fields = { ...headers, 'content-type': 'application/json' };
    return { status, fields, body: JSON.stringify({ message, reason: null }) };
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    request.url = this.#pathOf(request);
    // Jupyter's servers read no content type, and the app refuses those that are none.
    request.headers['content-type'] = undefined;
    this.#app.routing(request, response);
  }

  async upgrade(connection: LeavingConnection): Promise<void> {
    try {
      await this.#openChannels(connection);
    } catch (error) {
      const { status, message } = jupyterError(error, this.#state.log);
      const fields = { 'content-type': 'application/json' };
      connection.refuse({ status, fields, body: JSON.stringify({ message, reason: null }) });
    }
  }

  async close(): Promise<void> {
    await this.#state.sharedKernels.close();
    this.#sockets.close();
    await this.#app.close();
  }

  async #openChannels(connection: LeavingConnection): Promise<void> {
    const { request } = connection;
    const url = this.#pathOf(request);
    const kernelId = CHANNELS.exec(url)?.[1];
    if (kernelId === undefined) throw new GatewayError(404, 'Only /api/kernels/{id}/channels opens a WebSocket.');
    const api = this.#state.apiOf(request);
    const kernels = this.#state.kernelsOf(request);
    // SECURITY: the id alone opens nothing; held by "a kernel is open to its own organization alone" in
    // jupyter-gateway.test.ts.
    const context = await kernels.context(kernelId);
    const session = new URLSearchParams(url.split('?', 2)[1]).get('session_id') ?? undefined;
    const shared = this.#state.sharedKernels.open(kernelId);
    const held = await this.#state.hold(api.apiKey);
    using unserved = new DisposableStack();
    unserved.use(held);
    if (!shared.hasPlaceFor(session))
      throw new GatewayError(429, `The kernel has ${MAX_CONNECTIONS} clients; close one of them.`);
    const socket = connection.take();
    if (!socket) return;
    unserved.move();
    const check = () => kernels.context(kernelId);
    const shutDown = () => kernels.shutDown(kernelId);
    const disconnectClients = () => this.#state.sharedKernels.remove(kernelId);
    const kernel = new KernelMessages(api, context);
    this.#sockets.open({ request, socket, session, context, kernel, shared, held, check, shutDown, disconnectClients });
  }

  #pathOf({ url = '' }: IncomingMessage): string {
    return url.slice(this.#state.prefix.length) || '/';
  }
}

/** Builds an app that listens nowhere: the server passes it requests of its own port. */
function buildApp(state: JupyterState): FastifyInstance {
  const { log } = state;
  const answer = (error: unknown) => {
    const { status, message, headers } = jupyterError(error, log);
    return { status, headers, body: { message, reason: null } };
  };
  const app = gatewayApp({ log, bodyBytes: BODY_BYTES, answer, readsRest: true, ignoresTrailingSlash: true });
  // As Jupyter's servers do: programs name the types of bodies that they do not send, and send some that none needs.
  readJsonBodies(app, {
    type: '*',
    mostValues: MAX_VALUES,
    isRead: ({ routeOptions }) => routeOptions.schema?.body !== undefined,
  });
  // Before a body is read: a request without a key gets no further.
  app.addHook('onRequest', async ({ raw }) => {
    if (raw.method !== 'GET') state.apiOf(raw);
  });
  specRoutes(app, state);
  kernelRoutes(app, state);
  sessionRoutes(app, state);
  return app;
}
