import type { IncomingMessage, ServerResponse } from 'node:http';
import { Cloche } from '@cloche/sdk';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, type McpHttpHandler, McpServer } from '@modelcontextprotocol/server';
import type { Logger } from 'pino';
import { addCodeTools } from './tools/code-tools.ts';
import { addCommandTools } from './tools/command-tools.ts';
import { addFileTools } from './tools/file-tools.ts';
import { addSandboxTools } from './tools/sandbox-tools.ts';
import { Tools } from './tools/tools.ts';

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
      ({ authInfo }) => mcpServer(new Cloche({ url: apiUrl(), apiKey: authInfo?.token ?? '' }), version),
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
    const auth = { token, clientId: 'cloche', scopes: [] };
    // A request that a server received has a method, which Node's type leaves open.
    void this.#handle(Object.assign(request, { auth }) as Parameters<NodeHandler>[0], response);
  }

  close(): Promise<void> {
    return this.#handler.close();
  }
}

function mcpServer(cloche: Cloche, version: string): McpServer {
  const server = new McpServer(
    { name: 'cloche', title: 'Cloche sandboxes', version },
    {
      instructions:
        'Runs code, commands and files in isolated sandboxes. `run_code` without `sandboxId` creates a sandbox and returns its ' +
        'id; give that id to the following calls, so that variables and files are kept. Destroy what you no longer need.',
    },
  );
  const tools = new Tools(server, cloche);
  addCodeTools(tools);
  addSandboxTools(tools);
  addCommandTools(tools);
  addFileTools(tools);
  return server;
}
