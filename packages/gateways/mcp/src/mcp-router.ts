import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { SandboxId } from '@cloche/contract';
import { bearer, GatewayError, type HeldConnection, type HoldConnection, keyFrom, loopbackClient } from '@cloche/kit';
import type { Refusal } from '@cloche/node-support';
import type { Cloche } from '@cloche/sdk';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, type McpHttpHandler } from '@modelcontextprotocol/server';
import type { Logger } from 'pino';
import { CallsUnderWay } from './calls-under-way.ts';
import { isForeign } from './foreign-origin.ts';
import { mcpServer } from './mcp-server.ts';
import { readMessage, UnreadableMessage } from './read-message.ts';
import { isInitialize, openingSessions, SESSION_HEADER } from './sessions/opening-sessions.ts';
import type { McpSession, McpSessions } from './sessions/session.ts';
import { sendSessionStream } from './subscriptions/session-stream.ts';

export type { McpSession, McpSessions } from './sessions/session.ts';

/** Data of a request that its authentication carries to the server of the protocol. */
type RequestExtra = {
  readonly session: McpSession | undefined;
  readonly hasStream: boolean;
  /** Aborts when the client has disconnected, in each revision and whatever the library writes meanwhile. */
  readonly gone: AbortSignal;
  readonly fields: IncomingHttpHeaders;
};

type NodeHandler = ReturnType<typeof toNodeHandler>;

const PATH = '/mcp';
const UNAUTHORIZED = -32_001;
const INVALID = -32_600;
/** Ids that can be one of a session. */
const SESSION_ID = /^[\x21-\x7e]{1,128}$/;

export interface McpDeps {
  /** Returns the URL at which `/v1` answers. Every tool becomes requests to it, with the client's key. */
  readonly apiUrl: () => string;
  /** URL at which clients reach the service, if it is configured: pages of its host may send requests. */
  readonly publicUrl?: string | undefined;
  readonly version: string;
  readonly sessions: McpSessions;
  readonly holdConnection: HoldConnection;
  readonly log: Logger;
}

/**
 * Serves the Model Context Protocol at `/mcp`, over Streamable HTTP, in the revisions of 2025, which have sessions, and
 * of 2026-07-28, which has none. Every server answers every request. Scopes, quotas and audit apply as to every client
 * of `/v1`.
 */
export class McpRouter {
  readonly #handler: McpHttpHandler;
  readonly #handle: NodeHandler;
  readonly #apiUrl: () => string;
  readonly #publicUrl: string | undefined;
  readonly #sessions: McpSessions;
  readonly #log: Logger;
  readonly #calls = new CallsUnderWay();
  readonly #holdConnection: McpDeps['holdConnection'];
  /** Controllers that abort the open stream of a session, by the session's name. At this server only. */
  readonly #streams = new Map<string, AbortController>();

  constructor({ apiUrl, publicUrl, version, sessions, holdConnection, log }: McpDeps) {
    this.#handler = createMcpHandler(
      ({ authInfo }) => {
        if (!authInfo) throw new Error('a request without its key reached the protocol');
        // Sound: `#answer` puts it there.
        const { fields, ...extra } = authInfo.extra as RequestExtra;
        return mcpServer({ cloche: this.#clientOf(authInfo.token, fields), version, ...extra });
      },
      { onerror: (error) => log.debug({ err: error }, 'a request of an MCP client failed') },
    );
    this.#handle = toNodeHandler(openingSessions(this.#handler, (apiKey) => sessions.open(apiKey)));
    this.#apiUrl = apiUrl;
    this.#publicUrl = publicUrl;
    this.#sessions = sessions;
    this.#holdConnection = holdConnection;
    this.#log = log;
  }

  matches({ url = '' }: IncomingMessage): boolean {
    return url === PATH || url.startsWith(`${PATH}?`);
  }

  /** Returns the front of each request, as the service's table of them names it. */
  frontOf(): typeof PATH {
    return PATH;
  }

  /** Returns the API key of a request. @throws GatewayError 401; 403 to pages of another site. */
  keyOf(request: IncomingMessage): string {
    if (isForeign(request, this.#publicUrl)) {
      throw new GatewayError(403, 'Pages of another site must not send requests; use a client that is no page.');
    }
    const remedy = 'send `Authorization: Bearer` with a key of Cloche.';
    return keyFrom(request, [bearer], remedy, { 'www-authenticate': 'Bearer' });
  }

  /** Returns the answer to a request that is refused, as clients of the protocol read it. */
  refusalOf(_request: IncomingMessage, error: unknown): Refusal {
    if (!(error instanceof GatewayError)) throw error;
    const isKeys = error.status === 401 || error.status === 403;
    const code = error instanceof UnreadableMessage ? error.code : isKeys ? UNAUTHORIZED : INVALID;
    const body = { jsonrpc: '2.0', id: null, error: { code, message: error.message } };
    const fields = { ...error.headers, 'content-type': 'application/json' };
    return { status: error.status, fields, body: JSON.stringify(body) };
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await this.#answer(request, response);
    } catch (error) {
      // Also a client that left while it sent its request.
      if (!response.destroyed) this.#log.error({ err: error }, 'a request of an MCP client failed');
      response.destroy();
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    try {
      const token = this.keyOf(request);
      requireAnswerable(request);
      if (request.method === 'DELETE') return await this.#endSession(request, response, token);
      const session = await this.#sessionOf(request, token);
      if (request.method === 'GET') return await this.#openStream(request, response, { token, session, gone });
      const message = await readMessage(request);
      using _underWay = this.#enter(request, message, token, gone);
      const hasStream = session !== undefined || isInitialize(message);
      const extra: RequestExtra = { session, hasStream, gone: gone.signal, fields: request.headers };
      const auth = { token, clientId: 'cloche', scopes: [], extra };
      // A request that a server received has a method, which Node's type leaves open.
      await this.#handle(Object.assign(request, { auth }) as Parameters<NodeHandler>[0], response, message);
    } catch (error) {
      const { status, fields, body } = this.refusalOf(request, error);
      // Closing the connection while the client still writes could lose the response.
      request.resume();
      response.writeHead(status, fields).end(body);
    }
  }

  close(): Promise<void> {
    return this.#handler.close();
  }

  /** Returns undefined for a client without a session. @throws GatewayError 404 for a session that has ended. */
  async #sessionOf({ headers }: IncomingMessage, apiKey: string): Promise<McpSession | undefined> {
    const id = headers[SESSION_HEADER];
    if (id === undefined) return undefined;
    const found = isSessionId(id) ? await this.#sessions.find(apiKey, id) : undefined;
    if (!found) throw sessionNotFound();
    return found;
  }

  /** Sends notifications of a session. A later stream of the session replaces it. */
  async #openStream(
    { headers }: IncomingMessage,
    response: ServerResponse,
    { token, session, gone }: { token: string; session: McpSession | undefined; gone: AbortController },
  ): Promise<void> {
    if (!session)
      throw new GatewayError(405, 'Only a session has a stream: send `initialize` first.', { allow: 'POST' });
    using held = await this.#hold(token);
    this.#streams.get(session.name)?.abort();
    this.#streams.set(session.name, gone);
    try {
      const signal = AbortSignal.any([gone.signal, held.signal]);
      const cloche = this.#clientOf(token, headers);
      await sendSessionStream(response, { cloche, session, sessionId: String(headers[SESSION_HEADER]), signal });
    } finally {
      if (this.#streams.get(session.name) === gone) this.#streams.delete(session.name);
    }
  }

  #hold(apiKey: string): Promise<HeldConnection> {
    return this.#holdConnection(apiKey).catch((error: { status?: number; message: string }) => {
      throw error.status === undefined ? error : new GatewayError(error.status, error.message);
    });
  }

  /** Ends a session and its sandbox. */
  async #endSession({ headers }: IncomingMessage, response: ServerResponse, apiKey: string): Promise<void> {
    const id = headers[SESSION_HEADER];
    if (id === undefined)
      throw new GatewayError(400, `headers.${SESSION_HEADER} is missing: it names the session to end.`);
    const ended = isSessionId(id) ? await this.#sessions.end(apiKey, id) : undefined;
    if (!ended) throw sessionNotFound();
    if (ended.sandboxId !== undefined) {
      const params = { sandboxId: ended.sandboxId as SandboxId };
      // One that cannot be destroyed now ends when it is not used.
      await this.#clientOf(apiKey, headers)
        .call('killSandbox', { params })
        .catch((error) => this.#log.warn({ err: error, ...params }, 'the sandbox of an MCP session was not destroyed'));
    }
    response.writeHead(204).end();
  }

  #clientOf(apiKey: string, fields: IncomingHttpHeaders): Cloche {
    // Hosts of the protocol do not repeat a call.
    return loopbackClient(this.#apiUrl(), apiKey, fields, {});
  }

  /** Remembers a request until it is answered; cancels another one if the message says so. */
  #enter({ headers, socket }: IncomingMessage, message: unknown, apiKey: string, gone: AbortController) {
    const { id, method, params } = fieldsOf(message);
    const session = headers[SESSION_HEADER];
    const client = session === undefined ? [headers['user-agent'], socket.remoteAddress] : [String(session)];
    const name = { apiKey, client };
    if (method === 'notifications/cancelled') this.#calls.cancel({ ...name, id: fieldsOf(params).requestId });
    return isId(id) ? this.#calls.add({ ...name, id }, gone) : undefined;
  }
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

/** Longest id of a request that can be canceled. */
const ID_LENGTH = 256;

function isId(id: unknown): boolean {
  return typeof id === 'number' || (typeof id === 'string' && id.length <= ID_LENGTH);
}

/** @throws GatewayError for a request that the library cannot express as one of the web, and would fail of. */
function requireAnswerable({ method, headers }: IncomingMessage): void {
  if (method !== 'POST' && method !== 'GET' && method !== 'DELETE') {
    const message = 'This endpoint supports POST, and of a session GET for its stream and DELETE to end it.';
    throw new GatewayError(405, message, { allow: 'POST, GET, DELETE' });
  }
  if (!URL.canParse(`http://${headers.host ?? 'localhost'}`)) {
    throw new GatewayError(400, 'headers.host is not a host: send the one of the URL.');
  }
}

function isSessionId(id: string | string[]): id is string {
  return typeof id === 'string' && SESSION_ID.test(id);
}

function sessionNotFound(): GatewayError {
  return new GatewayError(404, 'The session is unknown or has ended: send `initialize` for another one.');
}
