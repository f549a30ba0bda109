import type { IncomingMessage } from 'node:http';
import type { Server } from 'node:net';
import { exposedCollector } from './exposed-collector.ts';

/** Monitors ask for these every few seconds. */
const MONITORED = /^\/(health|healthz|readyz|metrics)$/;

/** Told that somebody asks for something. */
export interface Touched {
  touch(): void;
}

/**
 * Gives back the memory that starting and requests took, once there are no more: V8 by itself keeps what it may need again.
 * Takes some 12 ms for an agent, 100 to 150 for a server.
 */
export class IdleTidying implements Touched {
  readonly #timer: NodeJS.Timeout;

  /**
   * @param idleMs so long after the last request, and it will hardly matter to the next one.
   * @param isBusy with something that began before; then it is put off.
   */
  constructor(idleMs: number, isBusy = () => false) {
    this.#timer = setTimeout(() => {
      if (isBusy()) this.touch();
      else compact();
    }, idleMs).unref();
  }

  touch(): void {
    this.#timer.refresh();
  }

  /** It collects nothing from now on. */
  stop(): void {
    clearTimeout(this.#timer);
  }
}

/** Tidies up so long after the last request to an HTTP server, those of monitors aside. The caller stops it. */
export function tidyWhenIdle(server: Server, idleMs: number, isBusy?: () => boolean): IdleTidying {
  const tidying = new IdleTidying(idleMs, isBusy);
  server.on('request', ({ url = '' }: IncomingMessage) => {
    if (!MONITORED.test(url)) tidying.touch();
  });
  return tidying;
}

let collect: NodeJS.GCFunction | undefined;

function compact(): void {
  collect ??= exposedCollector();
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}
