import type { Socket } from 'node:net';

/**
 * Makes the parser of Node's HTTP server get its bytes as `data` events of the socket. Otherwise the parser reads from the
 * socket's native handle, and `push` and `read` of the socket are not called. Node changes this with the first `data`
 * listener that is added after its own.
 */
export function parseFromStream(socket: Socket): void {
  const nothing = () => undefined;
  socket.on('data', nothing).off('data', nothing);
}
