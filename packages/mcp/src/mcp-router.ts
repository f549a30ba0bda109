import type { IncomingMessage, ServerResponse } from 'node:http';
import { Cloche } from '@cloche/sdk';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, type McpHttpHandler } from '@modelcontextprotocol/server';
import type { Logger } from 'pino';
import { isForeign } from './foreign-origin.ts';
import { mcpServer } from './mcp-server.ts';
import { readMessage, UnreadableMessage } from './read-message.ts';

/** Where the authentication of a request carries the signal that aborts when its client has disconnected. */
const GONE = 'gone';

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

  constructor({ apiUrl, publicUrl, version, log }: McpDeps) {
    this.#handler = createMcpHandler(
      ({ authInfo }) =>
        mcpServer(new Cloche({ url: apiUrl(), apiKey: authInfo?.token ?? '' }), version, goneOf(authInfo?.extra)),
      { onerror: (error) => log.debug({ err: error }, 'a request of an MCP client failed') },
    );
    this.#handle = toNodeHandler(this.#handler);
    this.#publicUrl = publicUrl;
    this.#log = log;
  }

  matches({ url = '' }: IncomingMessage): boolean {
    return url === PATH || url.startsWith(`${PATH}?`);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    if (isForeign(request, this.#publicUrl)) {
      refuse(
        response,
        403,
        UNAUTHORIZED,
        'Pages of another site must not send requests; use a client that is no page.',
      );
      return;
    }
    const token = /^Bearer +([\x21-\x7e]+)$/i.exec(request.headers.authorization ?? '')?.[1];
    if (token === undefined) {
      const message = 'The API key is missing: send `Authorization: Bearer` with a key of Cloche.';
      refuse(response, 401, UNAUTHORIZED, message, { 'www-authenticate': 'Bearer' });
      return;
    }
    const unanswerable = refusalOf(request);
    if (unanswerable) {
      refuse(response, unanswerable.status, INVALID, unanswerable.message, unanswerable.headers);
      return;
    }
    this.#answer(request, response, token).catch((error: unknown) => {
      // Also a client that left while it sent its request.
      if (!response.destroyed) this.#log.error({ err: error }, 'a request of an MCP client failed');
      response.destroy();
    });
  }

  async #answer(request: IncomingMessage, response: ServerResponse, token: string): Promise<void> {
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    try {
      const message = await readMessage(request);
      const auth = { token, clientId: 'cloche', scopes: [], extra: { [GONE]: gone.signal } };
      // A request that a server received has a method, which Node's type leaves open.
      await this.#handle(Object.assign(request, { auth }) as Parameters<NodeHandler>[0], response, message);
    } catch (error) {
      if (!(error instanceof UnreadableMessage)) throw error;
      // Closing the connection while the client still writes could lose the response.
      request.resume();
      refuse(response, error.status, error.code, error.message);
    }
  }

  close(): Promise<void> {
    return this.#handler.close();
  }
}

/** Returns what is wrong with a request that the library cannot express as one of the web, and would fail of. */
function refusalOf({ method, headers }: IncomingMessage) {
  if (method !== 'POST') {
    return {
      status: 405,
      message: 'This endpoint keeps no session: it supports POST only.',
      headers: { allow: 'POST' },
    };
  }
  if (!URL.canParse(`http://${headers.host ?? 'localhost'}`)) {
    return { status: 400, message: 'headers.host is not a host: send the one of the URL.', headers: {} };
  }
  return undefined;
}

function refuse(
  response: ServerResponse,
  status: number,
  code: number,
  message: string,
  headers: Record<string, string> = {},
): void {
  const body = { jsonrpc: '2.0', id: null, error: { code, message } };
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

/** Calls end with the connection of their client, in each revision and whatever the library writes meanwhile. */
function goneOf(extra: Readonly<Record<string, unknown>> = {}): AbortSignal | undefined {
  const gone = extra[GONE];
  return gone instanceof AbortSignal ? gone : undefined;
}
