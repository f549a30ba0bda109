import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { FrontRefusal, fetchFor, type Refusal } from '@cloche/node-support';
import { Cloche } from '@cloche/sdk';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, type McpHttpHandler } from '@modelcontextprotocol/server';
import type { Logger } from 'pino';
import { CallsUnderWay } from './calls-under-way.ts';
import { isForeign } from './foreign-origin.ts';
import { mcpServer } from './mcp-server.ts';
import { readMessage, UnreadableMessage } from './read-message.ts';

/** Where the authentication of a request carries the signal that aborts when its client has disconnected. */
const GONE = 'gone';
/** Where it carries the fields of the request. */
const FIELDS = 'fields';

type NodeHandler = ReturnType<typeof toNodeHandler>;

const PATH = '/mcp';
const UNAUTHORIZED = -32_001;
const INVALID = -32_600;

export interface McpDeps {
  /** Returns the URL at which `/v1` answers. Every tool becomes requests to it, with the client's key. */
  readonly apiUrl: () => string;
  /** URL at which clients reach the service, if it is configured: pages of its host may send requests. */
  readonly publicUrl?: string | undefined;
  readonly version: string;
  readonly log: Logger;
}

/**
 * Serves the Model Context Protocol at `/mcp`, over Streamable HTTP, in the revisions of 2025 and of 2026-07-28. Keeps
 * no session: every server answers every request. Scopes, quotas and audit apply as to every client of `/v1`.
 */
export class McpRouter {
  readonly #handler: McpHttpHandler;
  readonly #handle: NodeHandler;
  readonly #publicUrl: string | undefined;
  readonly #log: Logger;
  readonly #calls = new CallsUnderWay();

  constructor({ apiUrl, publicUrl, version, log }: McpDeps) {
    this.#handler = createMcpHandler(
      ({ authInfo }) =>
        mcpServer(clientOf(apiUrl(), authInfo?.token, authInfo?.extra), version, goneOf(authInfo?.extra)),
      { onerror: (error) => log.debug({ err: error }, 'a request of an MCP client failed') },
    );
    this.#handle = toNodeHandler(this.#handler);
    this.#publicUrl = publicUrl;
    this.#log = log;
  }

  matches({ url = '' }: IncomingMessage): boolean {
    return url === PATH || url.startsWith(`${PATH}?`);
  }

  /** Returns the front of each request, as the service's table of them names it. */
  frontOf(): typeof PATH {
    return PATH;
  }

  /** Returns the API key of a request. @throws FrontRefusal 401; 403 to pages of another site. */
  keyOf(request: IncomingMessage): string {
    if (isForeign(request, this.#publicUrl)) {
      throw new FrontRefusal(403, 'Pages of another site must not send requests; use a client that is no page.');
    }
    const token = /^Bearer +([\x21-\x7e]+)$/i.exec(request.headers.authorization ?? '')?.[1];
    if (token !== undefined) return token;
    const message = 'The API key is missing: send `Authorization: Bearer` with a key of Cloche.';
    throw new FrontRefusal(401, message, { 'www-authenticate': 'Bearer' });
  }

  /** Returns the answer to a request that is refused, as clients of the protocol read it. */
  refusalOf(_request: IncomingMessage, error: unknown): Refusal {
    if (!(error instanceof FrontRefusal || error instanceof UnreadableMessage)) throw error;
    const isKeys = error.status === 401 || error.status === 403;
    const [code, headers] =
      error instanceof FrontRefusal ? [isKeys ? UNAUTHORIZED : INVALID, error.headers] : [error.code, {}];
    const body = { jsonrpc: '2.0', id: null, error: { code, message: error.message } };
    const fields = { ...headers, 'content-type': 'application/json' };
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
      const message = await readMessage(request);
      using _underWay = this.#enter(request, message, token, gone);
      const extra = { [GONE]: gone.signal, [FIELDS]: request.headers };
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

  /** Remembers a request until it is answered; cancels another one if the message says so. */
  #enter({ headers, socket }: IncomingMessage, message: unknown, apiKey: string, gone: AbortController) {
    const { id, method, params } = fieldsOf(message);
    const client = { apiKey, userAgent: headers['user-agent'], address: socket.remoteAddress };
    if (method === 'notifications/cancelled') this.#calls.cancel({ ...client, id: fieldsOf(params).requestId });
    return isId(id) ? this.#calls.add({ ...client, id }, gone) : undefined;
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

/** @throws FrontRefusal for a request that the library cannot express as one of the web, and would fail of. */
function requireAnswerable({ method, headers }: IncomingMessage): void {
  if (method !== 'POST') {
    throw new FrontRefusal(405, 'This endpoint keeps no session: it supports POST only.', { allow: 'POST' });
  }
  if (!URL.canParse(`http://${headers.host ?? 'localhost'}`)) {
    throw new FrontRefusal(400, 'headers.host is not a host: send the one of the URL.');
  }
}

function clientOf(url: string, apiKey = '', extra: Readonly<Record<string, unknown>> = {}): Cloche {
  // Sound: `handle` puts the fields of the request there.
  return new Cloche({ url, apiKey, fetch: fetchFor((extra[FIELDS] ?? {}) as IncomingHttpHeaders) });
}

/** Calls end with the connection of their client, in each revision and whatever the library writes meanwhile. */
function goneOf(extra: Readonly<Record<string, unknown>> = {}): AbortSignal | undefined {
  const gone = extra[GONE];
  return gone instanceof AbortSignal ? gone : undefined;
}
