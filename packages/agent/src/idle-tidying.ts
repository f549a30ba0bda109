import { exposedCollector } from '@cloche/protocol';

/** So long after the last request, and it will hardly matter to the next one. */
const IDLE_MS = 10_000;

/** Told that somebody asks for something. */
export interface Touched {
  touch(): void;
}

/**
 * Gives back the memory that requests took, once there are none: there are hundreds of sandboxes on a host, and V8 by itself
 * keeps what it may need again. Takes some 12 ms.
 */
export class IdleTidying implements Touched {
  readonly #timer: NodeJS.Timeout;

  constructor(idleMs = IDLE_MS) {
    this.#timer = setTimeout(compact, idleMs).unref();
  }

  touch(): void {
    this.#timer.refresh();
  }
}

let collect: NodeJS.GCFunction | undefined;

function compact(): void {
  collect ??= exposedCollector();
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}
