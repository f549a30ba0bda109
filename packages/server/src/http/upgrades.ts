import { type IncomingMessage, type RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

interface Upgrade {
  readonly socket: Socket;
  /** Bytes already received after the request. */
  readonly head: Buffer;
}

const upgrades = new WeakMap<IncomingMessage, Upgrade>();

/**
 * Processes an upgrade request with `handle` as any other: authenticated, validated, refused as JSON. A handler that
 * accepts it takes the connection with `takeUpgrade`; otherwise the connection closes after the response.
 */
export function answerUpgrade(request: IncomingMessage, socket: Socket, head: Buffer, handle: RequestListener): void {
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket);
  response.once('finish', () => socket.end());
  // No other listener handles the socket's errors from here on.
  socket.on('error', () => socket.destroy());
  upgrades.set(request, { socket, head });
  handle(request, response as Parameters<RequestListener>[1]);
}

/** Returns the connection detached from its response, once; undefined if the request is not an upgrade. */
export function takeUpgrade(request: IncomingMessage, response: ServerResponse): Upgrade | undefined {
  const upgrade = upgrades.get(request);
  if (upgrade) response.detachSocket(upgrade.socket);
  upgrades.delete(request);
  return upgrade;
}

export function isUpgrade(request: IncomingMessage): boolean {
  return upgrades.has(request);
}
