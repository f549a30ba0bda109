import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ERRORS, type ErrorCode } from '@cloche/contract';

/** A request as it came over the wire. */
export interface SeenRequest {
  readonly method: string;
  /** With its query, as sent. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The JSON body; undefined where none was sent. */
  readonly body: unknown;
  /** Resolves when the client has gone before the answer ended. */
  readonly disconnected: Promise<void>;
}
export type Reply = (response: ServerResponse, request: SeenRequest) => void | Promise<void>;
/** Replies in order, or one chosen for each request. */
export type Script = readonly Reply[] | ((request: SeenRequest) => Reply);

export interface ScriptedServer extends AsyncDisposable {
  readonly url: string;
  readonly requests: readonly SeenRequest[];
}

/** A real HTTP server that says what it is told to, and remembers what it was asked. */
export async function startScriptedServer(script: Script, at = 0): Promise<ScriptedServer> {
  const requests: SeenRequest[] = [];
  const server = createServer(async (message, response) => {
    const request = await readRequest(message, response);
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
  const text = Buffer.concat(chunks).toString();
  const { method = '', url: path = '', headers } = message;
  return { method, path, headers, body: text === '' ? undefined : JSON.parse(text), disconnected };
}

export function json(status: number, body: unknown, headers: Record<string, string> = {}): Reply {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(body));
  };
}

/** The error that the service answers with for `code`. */
export function failing(
  code: ErrorCode,
  headers: Record<string, string> = {},
  details?: Record<string, unknown>,
): Reply {
  const error = { code, message: ERRORS[code].summary, requestId: 'req_test', ...(details ? { details } : {}) };
  return json(ERRORS[code].status, { error }, headers);
}

/** Breaks the connection without an answer. */
export const drop: Reply = (response) => {
  response.socket?.destroy();
};

/** An event stream of these chunks as they are cut. `end: false` leaves it open until the client goes. */
export function eventStream(chunks: readonly (string | Uint8Array)[], { end = true } = {}): Reply {
  return async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store' });
    for (const chunk of chunks) {
      response.write(chunk);
      // Lets each chunk leave on its own, so that the client sees the cut.
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (end) response.end();
  };
}

/** One frame of a run's stream. */
export function frame(type: string, data: unknown): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, data })}\n\n`;
}
