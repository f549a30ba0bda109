import { type Language, SERVICE_ERROR_NAMES } from '@cloche/contract';
import { Counter, Histogram, type Registry } from 'prom-client';

const SERVICE_ERRORS: ReadonlySet<string> = new Set(SERVICE_ERROR_NAMES);

/** Metrics of runs for operators. */
export class RunMetrics {
  readonly #runs: Counter<'language' | 'outcome'>;
  readonly #duration: Histogram<'language'>;

  constructor(registry: Registry) {
    const registers = [registry];
    this.#runs = new Counter({
      name: 'cloche_runs_total',
      help: "Runs that have a result. The outcome is ok, error, or the service's own error name.",
      labelNames: ['language', 'outcome'],
      registers,
    });
    this.#duration = new Histogram({
      name: 'cloche_run_seconds',
      help: 'From the accepted run to its result.',
      labelNames: ['language'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600],
      registers,
    });
  }

  ran(language: Language, errorName: string | undefined, seconds: number): void {
    // Exception names come from user code, so all of them share one label value.
    const outcome = errorName === undefined ? 'ok' : SERVICE_ERRORS.has(errorName) ? errorName : 'error';
    this.#runs.inc({ language, outcome });
    this.#duration.observe({ language }, seconds);
  }
}
