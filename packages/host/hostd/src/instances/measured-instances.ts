import { setImmediate } from 'node:timers/promises';
import type { InstanceHistory, InstanceUse, MeasuredInstance } from '@cloche/protocol';
import type { InstanceKey, InstanceName } from '../instance/instance-key.ts';
import type { InstanceRecords } from '../instance/instance-records.ts';
import type { InstanceMeter } from '../metering/instance-meter.ts';
import type { Measurements } from '../metering/measurements.ts';

/** Instances that are read before other work goes on, so that no launch waits for all of them. */
const READS_BEFORE_YIELD = 8;

export interface MeasuredInstancesDeps {
  records: InstanceRecords;
  meter: InstanceMeter;
  measurements: Measurements;
}

/** Answers what the instances of an installation use. */
export class MeasuredInstances {
  readonly #deps: MeasuredInstancesDeps;

  constructor(deps: MeasuredInstancesDeps) {
    this.#deps = deps;
  }

  /** Returns what each live instance has used since it was given to its sandbox. */
  async uses(): Promise<InstanceUse[]> {
    const { records, meter } = this.#deps;
    const uses: InstanceUse[] = [];
    for await (const key of withPauses(records.keys())) {
      const living = records.findLive(key);
      const use = living && meter.useOf(key, living);
      if (use) uses.push(use);
    }
    return uses;
  }

  /** Returns the same of the instances that live, out of those that are named. */
  async usesOf(names: readonly InstanceName[]): Promise<InstanceUse[]> {
    const { records, meter } = this.#deps;
    const uses: InstanceUse[] = [];
    for await (const name of withPauses(names)) {
      const key = records.keyOf(name);
      const living = records.findLive(key);
      const use = living && meter.useOf(key, living);
      if (use) uses.push(use);
    }
    return uses;
  }

  /** Measures the instances that live, out of those that are named. */
  async measure(names: readonly InstanceName[]): Promise<MeasuredInstance[]> {
    const { records, measurements } = this.#deps;
    const living = new Map<InstanceKey, InstanceName>();
    for await (const name of withPauses(names)) {
      const key = records.keyOf(name);
      if (records.findLive(key)) living.set(key, name);
    }
    const current = await measurements.current([...living.keys()]);
    return [...living].flatMap(([key, { sandboxId, generation }]) => {
      const found = current.get(key);
      if (!found) return [];
      const { measurement, disk } = found;
      const limits = disk && { diskLimitBytes: disk.limitBytes, inodesLimit: disk.limitInodes };
      return [{ sandboxId, generation, measurement, ...limits }];
    });
  }

  /** Measures an instance, and returns its samples of the last hour at or after a time. */
  async history(name: InstanceName, fromMs: number): Promise<InstanceHistory> {
    const { records, measurements } = this.#deps;
    const [now] = await this.measure([name]);
    return now ? { now, samples: measurements.samples(records.keyOf(name), fromMs) } : { samples: [] };
  }
}

async function* withPauses<T>(items: readonly T[]): AsyncGenerator<T, void> {
  for (const [index, item] of items.entries()) {
    if ((index + 1) % READS_BEFORE_YIELD === 0) await setImmediate();
    yield item;
  }
}
