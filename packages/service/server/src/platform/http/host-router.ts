import type { IncomingMessage, ServerResponse } from 'node:http';
import type { LeavingConnection } from '@cloche/node-support';

/** Serves some of the requests on the port of the API, which does not see them. */
export interface HostRouter {
  matches(request: IncomingMessage): boolean;
  handle(request: IncomingMessage, response: ServerResponse): void | Promise<void>;
  /** Serves a WebSocket. `handle` serves the request as any other if this is missing. */
  upgrade?(connection: LeavingConnection): void | Promise<void>;
}

/** Finds the first router that serves a request. */
export type FindHostRouter = (request: IncomingMessage) => HostRouter | undefined;
