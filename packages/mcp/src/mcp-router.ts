import type { IncomingMessage, ServerResponse } from 'node:http';
import { Cloche } from '@cloche/sdk';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, type McpHttpHandler } from '@modelcontextprotocol/server';
import type { Logger } from 'pino';
import { mcpServer } from './mcp-server.ts';

/** Where the authentication of a request carries the signal that aborts when its client has disconnected. */
const GONE = 'gone';

type NodeHandler = ReturnType<typeof toNodeHandler>;

const PATH = '/mcp';
/** Largest request: a file that a tool writes is in it. */
const BODY_BYTES = 8 * 1024 * 1024;

export interface McpDeps {
  /** Returns the URL at which `/v1` answers. Every tool becomes requests to it, with the client's key. */
  readonly apiUrl: () => string;
  readonly version: string;
  readonly log: Logger;
}

/**
 * Serves the Model Context Protocol at `/mcp`, over Streamable HTTP, in the revisions of 2025 and of 2026-07-28. Keeps no
 * session: every server answers every request. Scopes, quotas and audit apply as to every client of `/v1`.
 */
export class McpRouter {
  readonly #handler: McpHttpHandler;
  readonly #handle: NodeHandler;

  constructor({ apiUrl, version, log }: McpDeps) {
    this.#handler = createMcpHandler(
      ({ authInfo }) =>
        mcpServer(new Cloche({ url: apiUrl(), apiKey: authInfo?.token ?? '' }), version, goneOf(authInfo?.extra)),
      {
        maxRequestBodySize: BODY_BYTES,
        onerror: (error) => log.debug({ err: error }, 'a request of an MCP client failed'),
      },
    );
    this.#handle = toNodeHandler(this.#handler);
  }

  matches({ url = '' }: IncomingMessage): boolean {
    return url === PATH || url.startsWith(`${PATH}?`);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const token = /^Bearer +([\x21-\x7e]+)$/i.exec(request.headers.authorization ?? '')?.[1];
    if (token === undefined) {
      const message = 'The API key is missing: send `Authorization: Bearer` with a key of Cloche.';
      const body = { jsonrpc: '2.0', id: null, error: { code: -32_001, message } };
      response.writeHead(401, { 'content-type': 'application/json', 'www-authenticate': 'Bearer' });
      response.end(JSON.stringify(body));
      return;
    }
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const auth = { token, clientId: 'cloche', scopes: [], extra: { [GONE]: gone.signal } };
    // A request that a server received has a method, which Node's type leaves open.
    void this.#handle(Object.assign(request, { auth }) as Parameters<NodeHandler>[0], response);
  }

  close(): Promise<void> {
    return this.#handler.close();
  }
}

/** Calls end with the connection of their client, in each revision and whatever the library writes meanwhile. */
function goneOf(extra: Readonly<Record<string, unknown>> = {}): AbortSignal | undefined {
  const gone = extra[GONE];
  return gone instanceof AbortSignal ? gone : undefined;
}
