/** The time of a simulation: a queue of events, and the timers of Node.js, which are events of that queue. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import { Random } from '@cloche/testkit/random';

/** A simulated process: it has a name, and may end or stand still. */
export interface Owner {
  readonly name: string;
  isAlive: boolean;
  /** Until when the process stands still. */
  resumesAt: number;
}

export interface SimulatedEvent {
  at: number;
  readonly order: number;
  readonly owner: Owner | undefined;
  readonly label: string;
  readonly act: () => void;
  isCanceled: boolean;
}

/** Time in which a process that stood still takes up what has become due. */
const RESUMING_MS = 30;
/** When every simulation begins, in milliseconds since the epoch. */
const BEGIN = Date.parse('2026-01-01T00:00:00.000Z');

/**
 * Events in the order of their times; those of one time in the order in which they were made. Everything that happens in a
 * simulation is an event: it runs until nothing is left to do without another event.
 */
export class VirtualTime {
  readonly random: Random;
  /** Longest time by which a timer is late, as on a busy machine. */
  timerLagMs = 0;
  /** Called before each event of a process; may end or stop that process. */
  beforeEvent: (event: SimulatedEvent) => void = () => undefined;
  /** Receives a line for each event, if it is set. */
  trace: ((line: string) => void) | undefined;
  readonly #owners = new AsyncLocalStorage<Owner | undefined>();
  /** Enters the code of each process. To make a context once is far cheaper than `run`, which makes one for each event. */
  readonly #entries = new Map<Owner | undefined, <T>(act: () => T) => T>();
  readonly #hash = createHash('sha256');
  readonly #heap: SimulatedEvent[] = [];
  #now = BEGIN;
  #made = 0;
  #fired = 0;

  constructor(seed: number) {
    this.random = new Random(seed);
  }

  now(): number {
    return this.#now;
  }

  /** Milliseconds since the begin of the simulation. */
  elapsed(): number {
    return this.#now - BEGIN;
  }

  /** Number of events so far. */
  get fired(): number {
    return this.#fired;
  }

  /** The process that the current code belongs to; undefined for everything outside of the servers. */
  owner(): Owner | undefined {
    return this.#owners.getStore();
  }

  /** Runs `act` as code of a process. What it starts belongs to that process too. */
  as<T>(owner: Owner | undefined, act: () => T): T {
    let enter = this.#entries.get(owner);
    if (!enter) {
      enter = this.#owners.run(owner, () => AsyncLocalStorage.snapshot());
      this.#entries.set(owner, enter);
    }
    return enter(act);
  }

  /** Has `act` run after `ms`, as code of the caller's process. */
  after(ms: number, label: string, act: () => void): SimulatedEvent {
    return this.afterFor(this.owner(), ms, label, act);
  }

  /** Has `act` run after `ms` as code of `owner`; undefined for what no end of a process prevents. */
  afterFor(owner: Owner | undefined, ms: number, label: string, act: () => void): SimulatedEvent {
    const event = { at: this.#now + Math.max(0, ms), order: this.#made++, owner, label, act, isCanceled: false };
    this.#push(event);
    return event;
  }

  /** Resolves after `ms`. */
  pause(ms: number, label: string): Promise<void> {
    return new Promise((resolve) => this.after(ms, label, resolve));
  }

  /** Notes something in the trace, and so in its hash. */
  note(text: string): void {
    const line = `${this.elapsed().toFixed(3)} #${this.#fired} ${text}`;
    this.#hash.update(line);
    this.trace?.(line);
  }

  /** Returns the hash of the trace. */
  digest(): string {
    return this.#hash.digest('hex').slice(0, 16);
  }

  /** Runs the next event. Returns false if there is none. */
  step(): boolean {
    for (;;) {
      const event = this.#pop();
      if (!event) return false;
      const { owner } = event;
      if (event.isCanceled || hasEnded(owner)) continue;
      this.#now = Math.max(this.#now, event.at);
      if (owner) this.beforeEvent(event);
      if (hasEnded(owner)) continue;
      if (owner && owner.resumesAt > this.#now) {
        // A process that goes on finds its timers and what arrived meanwhile in any order.
        event.at = owner.resumesAt + this.random.next() * RESUMING_MS;
        this.#push(event);
        continue;
      }
      this.#fired += 1;
      this.note(`${owner?.name ?? '-'} ${event.label}`);
      this.as(owner, event.act);
      return true;
    }
  }

  #push(event: SimulatedEvent): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = heap[above];
      if (!parent || !isEarlier(event, parent)) break;
      heap[at] = parent;
      at = above;
    }
    heap[at] = event;
  }

  #pop(): SimulatedEvent | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (!first || !last || first === last) return first;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      const [left, right] = [heap[below], heap[below + 1]];
      if (!left) break;
      if (right && isEarlier(right, left)) below += 1;
      const child = heap[below];
      if (!child || !isEarlier(child, last)) break;
      heap[at] = child;
      at = below;
    }
    heap[at] = last;
    return first;
  }
}

function hasEnded(owner: Owner | undefined): boolean {
  return owner !== undefined && !owner.isAlive;
}

function isEarlier(one: SimulatedEvent, other: SimulatedEvent): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order);
}
