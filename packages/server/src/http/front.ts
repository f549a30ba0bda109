import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** Serves some hosts on the port of the API; nothing of the API sees what it takes. */
export interface Front {
  takes(request: IncomingMessage): boolean;
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** `head` is what came after the request already. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
}
