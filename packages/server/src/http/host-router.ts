import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** Serves some of the requests on the port of the API, which does not see them. */
export interface HostRouter {
  matches(request: IncomingMessage): boolean;
  handle(request: IncomingMessage, response: ServerResponse): void;
  /**
   * Serves a WebSocket. `handle` serves the request as any other if this is missing.
   * @param head bytes already received after the request.
   */
  upgrade?(request: IncomingMessage, socket: Duplex, head: Buffer): void;
}

/** Finds the first router that serves a request. */
export type FindHostRouter = (request: IncomingMessage) => HostRouter | undefined;
