import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** Serves requests for other hosts on the port of the API. The API does not see the requests that it takes. */
export interface HostRouter {
  matches(request: IncomingMessage): boolean;
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** @param head bytes already received after the request. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
}

/** Combines routers. The first one that matches a request serves it. */
export function firstOf(routers: readonly HostRouter[]): HostRouter {
  const find = (request: IncomingMessage) => routers.find((router) => router.matches(request));
  return {
    matches: (request) => find(request) !== undefined,
    handle: (request, response) => find(request)?.handle(request, response),
    upgrade: (request, socket, head) => find(request)?.upgrade(request, socket, head),
  };
}
