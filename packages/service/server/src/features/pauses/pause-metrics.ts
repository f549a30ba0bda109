import type { PauseCause, Sandbox, WakeCause } from '@cloche/contract';
import { Counter, Histogram, type Registry } from 'prom-client';
import { AppError } from '../../platform/base/app-error.ts';

/** The place in which a paused sandbox is kept. */
export type PausePlace = NonNullable<Sandbox['paused']>['place'];

/** `refused`: by a quota or by what the sandbox does, so that it was left as it was. */
type Result = 'done' | 'refused' | 'failed';

/** Metrics for operators of the pauses and wakes that this server performs. */
export class PauseMetrics {
  readonly #pauses: Counter<'by' | 'result'>;
  readonly #wakes: Counter<'place' | 'by' | 'result'>;
  readonly #wake: Histogram<'place'>;

  constructor(registry: Registry) {
    const registers = [registry];
    this.#pauses = new Counter({
      name: 'cloche_pauses_total',
      help: 'Pauses of sandboxes, by their cause.',
      labelNames: ['by', 'result'],
      registers,
    });
    this.#wakes = new Counter({
      name: 'cloche_wakes_total',
      help: 'Wakes of sandboxes, by the place that kept them and by their cause.',
      labelNames: ['place', 'by', 'result'],
      registers,
    });
    this.#wake = new Histogram({
      name: 'cloche_wake_seconds',
      help: 'From the start of a wake until the agent answers.',
      labelNames: ['place'],
      buckets: [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    });
  }

  /** Performs a pause and counts it. One that resolves with undefined was not needed any more, and is not counted. */
  pause<T>(by: PauseCause, perform: () => Promise<T | undefined>): Promise<T | undefined> {
    return counted(perform, (result) => this.#pauses.inc({ by, result }));
  }

  /** Performs a wake and counts it, as `pause` does. */
  wake<T>(place: PausePlace, by: WakeCause, perform: () => Promise<T | undefined>): Promise<T | undefined> {
    const startedAt = performance.now();
    return counted(perform, (result) => {
      this.#wakes.inc({ place, by, result });
      if (result === 'done') this.#wake.observe({ place }, (performance.now() - startedAt) / 1000);
    });
  }
}

async function counted<T>(
  perform: () => Promise<T | undefined>,
  count: (result: Result) => void,
): Promise<T | undefined> {
  try {
    const performed = await perform();
    if (performed !== undefined) count('done');
    return performed;
  } catch (error) {
    count(error instanceof AppError && error.status < 500 ? 'refused' : 'failed');
    throw error;
  }
}
