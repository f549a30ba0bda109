import { connect } from 'node:net';
import { onAbort } from '@cloche/node-support';

/**
 * Resolves when the process behind that socket answers a request; rejects when the connection ends first, or with the
 * signal's reason.
 *
 * SECURITY: hostd parses nothing that a guest wrote: only the arrival of a byte counts.
 */
export function waitForAgent(socketPath: string, signal: AbortSignal, request = 'GET /health'): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  if (signal.aborted) return Promise.reject(signal.reason);
  const socket = connect(socketPath);
  const listening = onAbort(signal, () => socket.destroy(signal.reason));
  socket.on('error', reject);
  socket.once('data', () => {
    resolve();
    socket.destroy();
  });
  socket.once('close', () => {
    listening[Symbol.dispose]();
    reject(new Error('the agent closed the connection'));
  });
  // Not `end`: a relay in between would close both directions.
  socket.write(`${request} HTTP/1.1\r\nhost: agent\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
  return promise;
}
