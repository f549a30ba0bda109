import type { IncomingMessage, RequestListener } from 'node:http';
import type { LeavingConnection } from '@cloche/node-support';

const upgrades = new WeakMap<IncomingMessage, LeavingConnection>();

/**
 * Processes an upgrade request with `handle` as any other: authenticated, validated, refused as JSON. A handler that
 * accepts it takes the connection of `upgradeOf`; otherwise the connection closes after the response.
 */
export function answerUpgrade(connection: LeavingConnection, handle: RequestListener): void {
  const { request } = connection;
  upgrades.set(request, connection);
  handle(request, connection.respond() as Parameters<RequestListener>[1]);
}

/** Returns the connection of an upgrade request; undefined for other requests. */
export function upgradeOf(request: IncomingMessage): LeavingConnection | undefined {
  return upgrades.get(request);
}
