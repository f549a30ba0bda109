import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import type { InstanceMeasurement } from '@cloche/protocol';
import type { Logger } from 'pino';
import type { InstanceKey } from '../instance/instance-key.ts';
import type { DiskUsage } from './disk-usage.ts';
import type { Reading } from './instance-readings.ts';
import { MeasurementSeries } from './measurement-series.ts';

export const SAMPLE_INTERVAL_MS = 10_000;
const TICK_MS = 1000;
/** Readings before hostd does other work; each takes about 0.1 ms. */
const READINGS_BEFORE_YIELD = 8;
/**
 * Shortest time over which the use of the processor is an average: fifty ticks of a kernel that counts 250 a second.
 */
const SHORTEST_SPAN_MS = 200;
/**
 * Minimum age at which a request on demand replaces the reading that the next one averages from, so that frequent
 * requests do not shorten the average.
 */
const FRESH_MS = 1000;

/** Processor time at a moment, from which an average begins. */
interface Mark {
  readonly atMs: number;
  readonly cpuUs: number;
}

interface Observed {
  readonly series: MeasurementSeries;
  nextSampleMs: number;
  /** Readings from which the next sample's average and the next request's average begin. */
  lastSample: Mark;
  lastCall: Mark;
}

export interface CurrentMeasurement {
  readonly measurement: InstanceMeasurement;
  readonly disk?: DiskUsage;
}

export interface MeasurementsDeps {
  /** Returns the instances that sandboxes have. */
  keys: () => readonly InstanceKey[];
  /** Returns undefined when the instance is gone. */
  read: (key: InstanceKey) => Reading | undefined;
  log: Logger;
  /** Milliseconds of a clock that only goes forward, and the time of day. */
  elapsedMs?: () => number;
  now?: () => number;
}

/**
 * Measures live instances: on request, and every 10 s for the last hour. The samples are spread over the interval and
 * stay in memory, so a restart of hostd loses them.
 */
export class Measurements {
  readonly #deps: Required<MeasurementsDeps>;
  readonly #observed = new Map<InstanceKey, Observed>();
  /** Spreads instances that are seen at the same time, as all are after a restart. */
  #nextOffsetMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #ticking: Promise<void> = Promise.resolve();
  #isTicking = false;

  constructor(deps: MeasurementsDeps) {
    this.#deps = { elapsedMs: () => performance.now(), now: () => Date.now(), ...deps };
  }

  open(): void {
    this.#timer = setInterval(() => {
      if (this.#isTicking) return;
      this.#isTicking = true;
      this.#ticking = this.tick()
        .catch((err) => this.#deps.log.error({ operation: 'measure', outcome: 'failed', err }))
        .finally(() => {
          this.#isTicking = false;
        });
    }, TICK_MS).unref();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#ticking;
  }

  /** Takes the samples that are due, and forgets instances that are gone. */
  async tick(): Promise<void> {
    const { keys, elapsedMs } = this.#deps;
    const live = new Set(keys());
    for (const key of this.#observed.keys()) if (!live.has(key)) this.#observed.delete(key);
    let readings = 0;
    for (const key of live) {
      const observed = this.#observed.get(key);
      if (observed && observed.nextSampleMs > elapsedMs()) continue;
      readings += 1;
      if (readings % READINGS_BEFORE_YIELD === 0) await setImmediate();
      if (observed) this.#sample(key, observed);
      else this.#observe(key);
    }
  }

  /** Measures instances now. Leaves out those that are gone. */
  async current(keys: readonly InstanceKey[]): Promise<Map<InstanceKey, CurrentMeasurement>> {
    await this.#untilSpansAreLongEnough(keys);
    const found = new Map<InstanceKey, CurrentMeasurement>();
    for (const [index, key] of keys.entries()) {
      if ((index + 1) % READINGS_BEFORE_YIELD === 0) await setImmediate();
      const observed = this.#observed.get(key);
      const reading = observed && this.#deps.read(key);
      if (!reading) continue;
      const mark = { atMs: this.#deps.elapsedMs(), cpuUs: reading.cpuUs };
      const measurement = this.#measurement(reading, this.#newestMark(observed, mark.atMs) ?? observed.lastCall, mark);
      if (mark.atMs - observed.lastCall.atMs >= FRESH_MS) observed.lastCall = mark;
      found.set(key, { measurement, ...(reading.disk && { disk: reading.disk }) });
    }
    return found;
  }

  /** Returns the samples of the last hour at or after that time, oldest first. */
  samples(key: InstanceKey, fromMs: number): InstanceMeasurement[] {
    const hourAgo = this.#deps.now() - 3_600_000;
    return this.#observed.get(key)?.series.since(Math.max(fromMs, hourAgo)) ?? [];
  }

  /** Waits until each instance has two readings at least `SHORTEST_SPAN_MS` apart. */
  async #untilSpansAreLongEnough(keys: readonly InstanceKey[]): Promise<void> {
    const { elapsedMs } = this.#deps;
    for (const [index, key] of keys.entries()) {
      if ((index + 1) % READINGS_BEFORE_YIELD === 0) await setImmediate();
      if (!this.#observed.has(key)) this.#observe(key);
    }
    const at = elapsedMs();
    const waits = keys.map((key) => {
      const observed = this.#observed.get(key);
      if (!observed || this.#newestMark(observed, at)) return 0;
      return SHORTEST_SPAN_MS - (at - observed.lastCall.atMs);
    });
    const waitMs = Math.max(0, ...waits);
    if (waitMs > 0) await delay(waitMs);
  }

  /** Returns the newest mark that is old enough to average from. */
  #newestMark({ lastSample, lastCall }: Observed, atMs: number): Mark | undefined {
    return [lastSample, lastCall]
      .filter((mark) => atMs - mark.atMs >= SHORTEST_SPAN_MS)
      .reduce<Mark | undefined>((newest, mark) => (newest && newest.atMs > mark.atMs ? newest : mark), undefined);
  }

  #observe(key: InstanceKey): void {
    const reading = this.#deps.read(key);
    if (!reading) return;
    const mark = { atMs: this.#deps.elapsedMs(), cpuUs: reading.cpuUs };
    this.#nextOffsetMs = (this.#nextOffsetMs + TICK_MS) % SAMPLE_INTERVAL_MS;
    const nextSampleMs = mark.atMs + TICK_MS + this.#nextOffsetMs;
    this.#observed.set(key, { series: new MeasurementSeries(), nextSampleMs, lastSample: mark, lastCall: mark });
  }

  #sample(key: InstanceKey, observed: Observed): void {
    const reading = this.#deps.read(key);
    if (!reading) return;
    const mark = { atMs: this.#deps.elapsedMs(), cpuUs: reading.cpuUs };
    observed.series.add(this.#measurement(reading, observed.lastSample, mark));
    observed.lastSample = mark;
    // From the time that was planned, so that delays do not add up; from now after a long one.
    const lateMs = mark.atMs - observed.nextSampleMs;
    observed.nextSampleMs = (lateMs < SAMPLE_INTERVAL_MS ? observed.nextSampleMs : mark.atMs) + SAMPLE_INTERVAL_MS;
  }

  #measurement({ cpuUs: _, disk, ...reading }: Reading, from: Mark, to: Mark): InstanceMeasurement {
    const cores = (to.cpuUs - from.cpuUs) / 1000 / Math.max(1, to.atMs - from.atMs);
    return {
      at: this.#deps.now(),
      cpu: Math.max(0, Math.round(cores * 1000) / 1000),
      ...reading,
      ...(disk && { diskBytes: disk.bytes, inodes: disk.inodes }),
    };
  }
}
