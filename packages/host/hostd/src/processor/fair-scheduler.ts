import { readFileSync } from 'node:fs';
import { machineProcessors } from '@cloche/layout';
import type { Logger } from 'pino';
import type { InstanceKey } from '../instance/instance-key.ts';
import { SHORT_SLICE_NS, setTimeSlice } from '../linux/time-slice.ts';
import { ProcessorDebts } from './processor-debts.ts';
import type { ProcessorGroups } from './processor-groups.ts';

/**
 * Milliseconds between two checks for contention. The kernel sends no event for it, and a check that finds none takes
 * 20 µs.
 */
const CHECK_INTERVAL_MS = 250;

export interface FairSchedulerOptions {
  groups: ProcessorGroups;
  /** Returns the instances that sandboxes have. */
  keys: () => readonly InstanceKey[];
  log: Logger;
}

/**
 * Prioritizes sandboxes that use little processor time over those that use much, while processors are contended. With
 * equal weights and slices, a run of a millisecond would wait until each of fifty busy sandboxes had its 4 ms.
 */
export class FairScheduler {
  readonly #options: FairSchedulerOptions;
  readonly #processors = machineProcessors();
  readonly #debts = new ProcessorDebts<InstanceKey>();
  readonly #lowPriority = new Set<InstanceKey>();
  readonly #timer: NodeJS.Timeout;
  #wasContended = false;

  constructor(options: FairSchedulerOptions) {
    this.#options = options;
    // Each process started by this one inherits the slice: every sandbox, and the kernels that are forked into it.
    setTimeSlice(process.pid, SHORT_SLICE_NS);
    // An earlier hostd that was killed may have left sandboxes in the `low` state.
    for (const key of options.keys()) options.groups.setPriority(key, 'high');
    this.#timer = setInterval(() => this.#tryCheck(), CHECK_INTERVAL_MS);
    this.#timer.unref();
  }

  /** Stops the checks and resets every sandbox to `high`. */
  close(): void {
    clearInterval(this.#timer);
    for (const key of this.#lowPriority) this.#options.groups.setPriority(key, 'high');
  }

  #tryCheck(): void {
    try {
      const isContended = runnableThreads(readFileSync('/proc/loadavg', 'utf8')) > this.#processors;
      if (isContended) this.#check();
      this.#wasContended = isContended;
    } catch (err) {
      this.#options.log.error({ operation: 'share the processor', outcome: 'failed', err });
    }
  }

  #check(): void {
    const { groups, keys } = this.#options;
    const used = new Map<InstanceKey, number>();
    for (const key of keys()) {
      const usedUs = groups.usedUs(key);
      if (usedUs !== undefined) used.set(key, usedUs);
    }
    for (const key of this.#lowPriority) if (!used.has(key)) this.#lowPriority.delete(key);
    if (!this.#wasContended) this.#debts.begin(used);
    for (const key of this.#lowPriority) groups.setSlices(key, 'low');
    for (const [key, isLow] of this.#debts.update(used, (key) => groups.hasRunnableThread(key))) {
      groups.setPriority(key, isLow ? 'low' : 'high');
      if (isLow) this.#lowPriority.add(key);
      else this.#lowPriority.delete(key);
    }
  }
}

/**
 * Returns the number of threads of the whole host that run or wait for a processor.
 * @param loadavg content of `/proc/loadavg`
 */
function runnableThreads(loadavg: string): number {
  return Number(loadavg.split(' ')[3]?.split('/')[0]);
}
