import type { InstanceMeasurement } from '@cloche/protocol';

/** An hour at intervals of 10 s. */
export const MAX_SAMPLES = 360;
const FIRST_CAPACITY = 15;

/** Order of a measurement's values. A value that is absent is stored as NaN. */
const FIELDS = [
  'at',
  'cpu',
  'memoryBytes',
  'diskBytes',
  'inodes',
  'processes',
  'egressBytes',
  'ingressBytes',
] as const satisfies readonly (keyof InstanceMeasurement)[];

/** The newest `MAX_SAMPLES` measurements of an instance, in at most 23 kB. */
export class MeasurementSeries {
  #values = new Float64Array(FIRST_CAPACITY * FIELDS.length);
  /** Number of measurements that were added. */
  #added = 0;

  add(measurement: InstanceMeasurement): void {
    const capacity = this.#values.length / FIELDS.length;
    if (this.#added === capacity && capacity < MAX_SAMPLES) {
      const wider = new Float64Array(Math.min(2 * capacity, MAX_SAMPLES) * FIELDS.length);
      wider.set(this.#values);
      this.#values = wider;
    }
    this.#values.set(
      FIELDS.map((field) => measurement[field] ?? Number.NaN),
      (this.#added % MAX_SAMPLES) * FIELDS.length,
    );
    this.#added += 1;
  }

  /** Returns the measurements at or after that time, oldest first. */
  since(fromMs: number): InstanceMeasurement[] {
    const found: InstanceMeasurement[] = [];
    for (let index = Math.max(0, this.#added - MAX_SAMPLES); index < this.#added; index += 1) {
      const offset = (index % MAX_SAMPLES) * FIELDS.length;
      if ((this.#values[offset] ?? 0) < fromMs) continue;
      const known = FIELDS.map((field, at) => [field, this.#values[offset + at]] as const).filter(
        ([, value]) => !Number.isNaN(value),
      );
      // Only optional fields can be absent.
      found.push(Object.fromEntries(known) as InstanceMeasurement);
    }
    return found;
  }
}
