import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ERRORS, type ErrorCode } from '@cloche/contract';

/** A received request. */
export interface SeenRequest {
  readonly method: string;
  /** Path and query, as sent. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The JSON body; undefined if there was none. */
  readonly body: unknown;
  /** The body as it arrived. */
  readonly bytes: Buffer;
  /** Resolves when the client disconnects before the response has ended. */
  readonly disconnected: Promise<void>;
}
export type Reply = (response: ServerResponse, request: SeenRequest) => void | Promise<void>;
/** Replies in order, or a function that chooses the reply for each request. */
export type Script = readonly Reply[] | ((request: SeenRequest) => Reply);

export interface ScriptedServer extends AsyncDisposable {
  readonly url: string;
  readonly requests: readonly SeenRequest[];
}

/** Starts a real HTTP server that sends scripted replies and records the requests. */
export async function startScriptedServer(script: Script, at = 0): Promise<ScriptedServer> {
  const requests: SeenRequest[] = [];
  const server = createServer(async (message, response) => {
    const request = await readRequest(message, response).catch(() => undefined);
    // The client has disconnected before the end of its request.
    if (!request) return;
    requests.push(request);
    const reply = typeof script === 'function' ? script(request) : script[requests.length - 1];
    await (reply ?? json(418, { unscripted: request.path }))(response, request);
  });
  server.listen(at, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function readRequest(message: IncomingMessage, response: ServerResponse): Promise<SeenRequest> {
  const disconnected = new Promise<void>((resolve) => {
    response.once('close', () => {
      if (!response.writableFinished) resolve();
    });
  });
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  const bytes = Buffer.concat(chunks);
  const { method = '', url: path = '', headers } = message;
  const isJson = headers['content-type'] === 'application/json';
  return { method, path, headers, body: isJson ? JSON.parse(bytes.toString()) : undefined, bytes, disconnected };
}

export function json(status: number, body: unknown, headers: Record<string, string> = {}): Reply {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(body));
  };
}

/** Replies with the service's error for `code`. */
export function failing(
  code: ErrorCode,
  headers: Record<string, string> = {},
  details?: Record<string, unknown>,
): Reply {
  const error = { code, message: ERRORS[code].summary, requestId: 'req_test', ...(details ? { details } : {}) };
  return json(ERRORS[code].status, { error }, headers);
}

/** Closes the connection without a response. */
export const drop: Reply = (response) => {
  response.socket?.destroy();
};

/**
 * Replies with an event stream of these chunks, one write each. `end: false` leaves it open until the client
 * disconnects.
 */
export function eventStream(chunks: readonly (string | Uint8Array)[], { end = true } = {}): Reply {
  return async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store' });
    for (const chunk of chunks) {
      response.write(chunk);
      // Sends each chunk separately, so that the client receives it in the same pieces.
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (end) response.end();
  };
}

/** Returns a frame of a run's stream. */
export function frame(type: string, data: unknown): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, data })}\n\n`;
}
