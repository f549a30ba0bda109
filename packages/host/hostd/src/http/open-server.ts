import type { RequestListener } from 'node:http';
import { GuardedServer } from '@cloche/node-support';

export interface ServerBounds {
  /** Time in which a request must arrive whole. Its operation may take longer. */
  readonly requestMs: number;
  readonly connections: number;
  /** Unanswered requests of a connection. */
  readonly pending: number;
  /** Header fields of a request. */
  readonly fields: number;
}

/**
 * Each of up to 16 servers opens up to 32 connections, and sends the next request of one after an answer. Together, all
 * connections hold at most 72 MiB of bodies. A busy host can stop a server for seconds in the middle of a request.
 */
export const SERVER_BOUNDS: ServerBounds = { requestMs: 60_000, connections: 576, pending: 2, fields: 256 };

/** Creates the server of hostd's socket, whose clients are trusted to be the service's own and not to be faultless. */
export function openServer(
  handle: RequestListener,
  { requestMs, connections, pending, fields }: ServerBounds,
  report: (error: unknown) => void,
): GuardedServer {
  const times = { requestTimeout: requestMs, headersTimeout: requestMs, connectionsCheckingInterval: requestMs / 4 };
  const server = new GuardedServer(times, { serve: handle, report, mostPending: pending, mostFields: fields });
  server.maxConnections = connections;
  return server;
}
