import { GATE_TICKS } from '@cloche/protocol';
import { AgentError } from './agent-error.ts';

const TICK_MS = 1000;

/** What the gate ends when it closes. */
export interface Endable {
  destroy(): unknown;
  once(event: 'close', listener: () => void): unknown;
}

/**
 * Keeps work out of the sandbox between a pause and its resume. While it is closed, the times that it measures stand
 * still, since the sandbox is frozen soon. It opens by itself after `GATE_TICKS` ticks, which do not go on in a frozen
 * sandbox.
 */
export class Gate {
  #token: string | undefined;
  #ticks = 0;
  #ticking: NodeJS.Timeout | undefined;
  readonly #streams = new Set<Endable>();
  readonly #timers = new Set<GatedTimer>();

  get isClosed(): boolean {
    return this.#token !== undefined;
  }

  /** Throws `pausing` while the gate is closed. */
  requireOpen(): void {
    if (this.isClosed) throw new AgentError('pausing', 'The sandbox is about to be paused.');
  }

  isClosedBy(token: string): boolean {
    return this.#token === token;
  }

  /** Closes the gate, or hands a closed one over to the later pause. It then stays closed for all of its ticks. */
  close(token: string): void {
    const wasOpen = !this.isClosed;
    this.#token = token;
    this.#ticks = 0;
    if (!wasOpen) return;
    this.#ticking = setInterval(() => this.#tick(), TICK_MS).unref();
    for (const timer of this.#timers) timer.hold();
    for (const stream of this.#streams) stream.destroy();
  }

  /** Opens the gate if it was closed by that pause. */
  open(token: string): void {
    if (this.isClosedBy(token)) this.#open();
  }

  /** Destroys a stream when the gate closes: its reader would wait for as long as the sandbox is paused. */
  endAtClosing(stream: Endable): void {
    this.#streams.add(stream);
    stream.once('close', () => this.#streams.delete(stream));
  }

  /** Calls `onEnd` after a time in which the gate is open. */
  startTimer(onEnd: () => void, ms: number): GatedTimer {
    const timer = new GatedTimer(() => {
      this.#timers.delete(timer);
      onEnd();
    }, ms);
    this.#timers.add(timer);
    if (!this.isClosed) timer.go();
    return timer;
  }

  /** Stops a timer. Does nothing without one. */
  clearTimer(timer: GatedTimer | undefined): void {
    if (timer === undefined) return;
    this.#timers.delete(timer);
    timer.hold();
  }

  #tick(): void {
    this.#ticks += 1;
    if (this.#ticks >= GATE_TICKS) this.#open();
  }

  #open(): void {
    this.#token = undefined;
    clearInterval(this.#ticking);
    for (const timer of this.#timers) timer.go();
  }
}

/** A time limit that can be held. */
export class GatedTimer {
  readonly #onEnd: () => void;
  #leftMs: number;
  #begunAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(onEnd: () => void, ms: number) {
    this.#onEnd = onEnd;
    this.#leftMs = ms;
  }

  go(): void {
    this.#begunAt = performance.now();
    this.#timer = setTimeout(this.#onEnd, this.#leftMs);
  }

  /** Keeps what is left of the time for `go`. */
  hold(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#leftMs = Math.max(0, this.#leftMs - (performance.now() - this.#begunAt));
  }
}
