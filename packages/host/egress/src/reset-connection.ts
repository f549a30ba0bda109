import type { Socket } from 'node:net';
import { resetOnClose } from './socket-options.ts';

/**
 * Resets a connection at once and drops unsent data. The peer gets an error, so that it does not take partial data for
 * complete. Idempotent. Node's `resetAndDestroy` is unsuitable: it never closes a connection whose TLS is just being
 * ended, and it throws for a TLS socket.
 */
export function resetConnection(socket: Socket): void {
  resetOnClose(socket);
  socket.destroy();
}
