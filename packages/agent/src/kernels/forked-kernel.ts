import type { Socket } from 'node:net';
import type { Fifo } from './fifo.ts';

/** A kernel that was forked from a zygote and belongs to no context yet. */
export interface ForkedKernel {
  pid: number;
  /** Tells its process from another one that gets the same number later. */
  startTicks: number;
  socket: Socket;
  /** Its standard output and error. */
  fifos: Fifo[];
}
