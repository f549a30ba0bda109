import type { Socket } from 'node:net';
import type { Fifo } from './fifo.ts';

/** A kernel that was forked from a zygote and does not belong to a context yet. */
export interface ForkedKernel {
  pid: number;
  /** Tells the process from a later one with the same pid. */
  startTicks: number;
  socket: Socket;
  /** Pipes of its standard output and error. */
  fifos: Fifo[];
}
