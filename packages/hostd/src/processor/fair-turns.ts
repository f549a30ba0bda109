import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import type { Logger } from 'pino';
import type { InstanceKey } from '../instances/instance-key.ts';
import { ProcessorDebts } from './processor-debts.ts';
import type { ProcessorGroups } from './processor-groups.ts';

/** The kernel tells nobody when processors become contended; a look that finds they are not takes 20 µs. */
const LOOK_INTERVAL_MS = 250;

export interface FairTurnsOptions {
  groups: ProcessorGroups;
  /** The instances that sandboxes have. */
  keys: () => readonly InstanceKey[];
  log: Logger;
}

/**
 * Gives sandboxes that use little of the processor their turn before those that use much, while there is not enough for
 * all. By equal weights alone, a run of a millisecond waits until each of fifty busy sandboxes had its 4 ms.
 */
export class FairTurns {
  readonly #options: FairTurnsOptions;
  readonly #processors = availableParallelism();
  readonly #debts = new ProcessorDebts<InstanceKey>();
  /** Of those that are or were behind: what their weight is otherwise. */
  readonly #weights = new Map<InstanceKey, string>();
  readonly #timer: NodeJS.Timeout;
  #wasContended = false;

  constructor(options: FairTurnsOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#tryLook(), LOOK_INTERVAL_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
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
    for (const key of this.#weights.keys()) if (!used.has(key)) this.#weights.delete(key);
    if (!this.#wasContended) this.#debts.begin(used);
    for (const [key, isBehind] of this.#debts.update(used)) {
      const weight = isBehind ? groups.putBehind(key) : this.#weights.get(key);
      if (weight === undefined) continue;
      if (isBehind) this.#weights.set(key, weight);
      else groups.putBack(key, weight);
    }
  }
}

/** Threads that run or wait for a processor, of the whole host. @param loadavg content of `/proc/loadavg` */
function runnable(loadavg: string): number {
  return Number(loadavg.split(' ')[3]?.split('/')[0]);
}
