import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import type { Logger } from 'pino';
import type { InstanceKey } from '../instance/instance-key.ts';
import { SHORT_SLICE_NS, setTimeSlice } from '../kernel/time-slice.ts';
import { ProcessorDebts } from './processor-debts.ts';
import type { ProcessorGroups } from './processor-groups.ts';

/**
 * Milliseconds between two checks for contention. The kernel sends no event for it, and a check that finds none takes
 * 20 µs.
 */
const LOOK_INTERVAL_MS = 250;

export interface FairTurnsOptions {
  groups: ProcessorGroups;
  /** Returns the instances that sandboxes have. */
  keys: () => readonly InstanceKey[];
  log: Logger;
}

/**
 * Prioritizes sandboxes that use little processor time over those that use much, while processors are contended. With
 * equal weights and slices, a run of a millisecond would wait until each of fifty busy sandboxes had its 4 ms.
 */
export class FairTurns {
  readonly #options: FairTurnsOptions;
  readonly #processors = availableParallelism();
  readonly #debts = new ProcessorDebts<InstanceKey>();
  readonly #behind = new Set<InstanceKey>();
  readonly #timer: NodeJS.Timeout;
  #wasContended = false;

  constructor(options: FairTurnsOptions) {
    this.#options = options;
    // Each process started by this one inherits the slice: every sandbox, and the kernels that are forked into it.
    setTimeSlice(process.pid, SHORT_SLICE_NS);
    // An earlier hostd that was killed may have left sandboxes in the `behind` state.
    for (const key of options.keys()) options.groups.setTurn(key, 'first');
    this.#timer = setInterval(() => this.#tryLook(), LOOK_INTERVAL_MS);
    this.#timer.unref();
  }

  /** Stops the checks and resets every sandbox to `first`. */
  close(): void {
    clearInterval(this.#timer);
    for (const key of this.#behind) this.#options.groups.setTurn(key, 'first');
  }

  #tryLook(): void {
    try {
      const isContended = runnable(readFileSync('/proc/loadavg', 'utf8')) > this.#processors;
      if (isContended) this.#look();
      this.#wasContended = isContended;
    } catch (err) {
      this.#options.log.error({ operation: 'share the processor', outcome: 'failed', err });
    }
  }

  #look(): void {
    const { groups, keys } = this.#options;
    const used = new Map<InstanceKey, number>();
    for (const key of keys()) {
      const usedUs = groups.usedUs(key);
      if (usedUs !== undefined) used.set(key, usedUs);
    }
    for (const key of this.#behind) if (!used.has(key)) this.#behind.delete(key);
    if (!this.#wasContended) this.#debts.begin(used);
    for (const key of this.#behind) groups.setSlices(key, 'behind');
    for (const [key, isBehind] of this.#debts.update(used, (key) => groups.wants(key))) {
      groups.setTurn(key, isBehind ? 'behind' : 'first');
      if (isBehind) this.#behind.add(key);
      else this.#behind.delete(key);
    }
  }
}

/**
 * Returns the number of threads of the whole host that run or wait for a processor.
 * @param loadavg content of `/proc/loadavg`
 */
function runnable(loadavg: string): number {
  return Number(loadavg.split(' ')[3]?.split('/')[0]);
}
