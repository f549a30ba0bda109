import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** Serves requests for other hosts on the port of the API. The API does not see the requests that it takes. */
export interface HostRouter {
  matches(request: IncomingMessage): boolean;
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** @param head bytes already received after the request. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
}
