import type { Socket } from 'node:net';
import { lingerNot } from './socket-options.ts';

/**
 * Ends a connection now, whatever waits to be sent on it; its other end is told of an error, so that it takes nothing for
 * whole that is not. Idempotent. Not Node's `resetAndDestroy`, which never closes a connection whose TLS is just being
 * ended, and throws for one that is TLS itself.
 */
export function breakOff(socket: Socket): void {
  lingerNot(socket);
  socket.destroy();
}
