import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { HttpMetrics } from './http-metrics.ts';
import type { InFlight } from './in-flight.ts';
import type { Outcome } from './outcome.ts';
import { OutcomeLog } from './outcome-log.ts';

export interface OutcomesDeps {
  readonly log: Logger;
  readonly metrics: Registry;
  readonly inFlight: InFlight;
}

/** Logs and counts the results of requests, also of those that are refused before they have an operation. */
export class Outcomes {
  readonly #log: OutcomeLog;
  readonly #metrics: HttpMetrics;

  constructor({ log, metrics, inFlight }: OutcomesDeps) {
    this.#log = new OutcomeLog(log);
    this.#metrics = new HttpMetrics(metrics, inFlight);
  }

  note(outcome: Outcome): void {
    this.#metrics.observe(outcome);
    this.#log.write(outcome);
  }
}
