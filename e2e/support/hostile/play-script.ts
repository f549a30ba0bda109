import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { ConnectionScript, Step } from './connection-script.ts';

/** Longest time of one connection. */
const LONGEST_MS = 3_000;
/** Bytes of answers that are kept to be looked at. */
const KEPT_BYTES = 256 * 1024;

/** Plays a script to a port of this machine, or to a socket's path. Returns what the connection received, as Latin-1. */
export async function playScript(to: { port: number } | { path: string }, script: ConnectionScript): Promise<string> {
  const socket = connect({ ...to, allowHalfOpen: true });
  const received: Buffer[] = [];
  let bytes = 0;
  socket.on('error', () => undefined);
  const take = (chunk: Buffer) => {
    if (bytes < KEPT_BYTES) received.push(chunk);
    bytes += chunk.length;
  };
  if (script.reads) socket.on('data', take);
  const end = setTimeout(() => socket.destroy(), LONGEST_MS);
  try {
    for (const step of script.steps) {
      if (socket.destroyed) break;
      await play(socket, step, script.reads);
    }
  } finally {
    clearTimeout(end);
    socket.destroy();
  }
  return Buffer.concat(received).toString('latin1');
}

async function play(socket: Socket, step: Step, reads: boolean): Promise<void> {
  switch (step.do) {
    case 'send':
      socket.write(Buffer.from(step.bytes, 'latin1'));
      return;
    case 'pause':
      return delay(step.ms);
    case 'await':
      return reads ? answered(socket, step.ms) : delay(step.ms);
    case 'end':
      socket.end();
      return;
    case 'reset':
      socket.resetAndDestroy();
      return;
    case 'close':
      socket.destroy();
  }
}

/** Resolves when the socket has received something since its beginning, or after `ms`. */
async function answered(socket: Socket, ms: number): Promise<void> {
  if (socket.bytesRead > 0) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const over = () => resolve();
  socket.once('data', over).once('close', over);
  await promise;
  clearTimeout(timer);
  socket.off('data', over).off('close', over);
}
