import { type IncomingMessage, type RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

interface Upgrade {
  readonly socket: Socket;
  /** What came after the request already. */
  readonly head: Buffer;
}

const upgrades = new WeakMap<IncomingMessage, Upgrade>();

/**
 * Lets a request for an upgrade be answered as any other, by `handle`: authenticated, validated, refused as JSON. Whoever
 * grants it takes the connection by `takeUpgrade`; otherwise it ends with the answer.
 */
export function answerUpgrade(request: IncomingMessage, socket: Socket, head: Buffer, handle: RequestListener): void {
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket);
  response.once('finish', () => socket.end());
  // The request's own socket emits no errors to anybody else from here on.
  socket.on('error', () => socket.destroy());
  upgrades.set(request, { socket, head });
  handle(request, response as Parameters<RequestListener>[1]);
}

/** The connection, free of its response; undefined where none was asked for. Once. */
export function takeUpgrade(request: IncomingMessage, response: ServerResponse): Upgrade | undefined {
  const upgrade = upgrades.get(request);
  if (upgrade) response.detachSocket(upgrade.socket);
  upgrades.delete(request);
  return upgrade;
}

export function isUpgrade(request: IncomingMessage): boolean {
  return upgrades.has(request);
}
