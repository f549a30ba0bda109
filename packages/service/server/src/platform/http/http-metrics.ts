import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { InFlight } from './in-flight.ts';
import type { Outcome } from './outcome.ts';

/** Buckets in seconds: a run may take minutes, a response from memory a fraction of a millisecond. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600];

/** Prometheus metrics of requests. Labels come only from the contract and the table of fronts, never from a client. */
export class HttpMetrics {
  readonly #duration: Histogram<'operation' | 'status'>;
  readonly #errors: Counter<'operation' | 'code'>;
  readonly #idempotency: Counter<'outcome'>;

  constructor(registry: Registry, inFlight: InFlight) {
    const registers = [registry];
    this.#duration = new Histogram({
      name: 'cloche_http_request_duration_seconds',
      help: 'Time from a request to the end of its answer.',
      labelNames: ['operation', 'status'],
      buckets: BUCKETS,
      registers,
    });
    this.#errors = new Counter({
      name: 'cloche_http_errors_total',
      help: 'Requests that failed, by error code.',
      labelNames: ['operation', 'code'],
      registers,
    });
    this.#idempotency = new Counter({
      name: 'cloche_idempotency_total',
      help: 'Requests with an Idempotency-Key: executed, replayed or refused.',
      labelNames: ['outcome'],
      registers,
    });
    new Gauge({
      name: 'cloche_http_requests_in_flight',
      help: 'Requests that are being executed.',
      registers,
      collect() {
        this.set(inFlight.size);
      },
    });
  }

  observe({ operation = 'none', status, durationMs, errorCode, idempotency }: Outcome): void {
    this.#duration.observe({ operation, status }, durationMs / 1000);
    if (errorCode) this.#errors.inc({ operation, code: errorCode });
    if (idempotency) this.#idempotency.inc({ outcome: idempotency });
  }
}
