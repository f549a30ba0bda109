import type { DestroyedReason } from '@cloche/contract';
import { Counter, Histogram, type Registry } from 'prom-client';

/** Lifecycle metrics for operators. */
export class SandboxMetrics {
  readonly #created: Counter;
  readonly #failed: Counter;
  readonly #destroyed: Counter<'reason'>;
  readonly #launch: Histogram;

  constructor(registry: Registry) {
    const registers = [registry];
    this.#created = new Counter({ name: 'cloche_sandboxes_created_total', help: 'Sandboxes accepted.', registers });
    this.#failed = new Counter({ name: 'cloche_sandboxes_failed_total', help: 'Sandboxes that failed.', registers });
    this.#destroyed = new Counter({
      name: 'cloche_sandboxes_destroyed_total',
      help: 'Sandboxes destroyed.',
      labelNames: ['reason'],
      registers,
    });
    this.#launch = new Histogram({
      name: 'cloche_sandbox_launch_seconds',
      help: 'From the start of a launch to ready.',
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
      registers,
    });
  }

  created(): void {
    this.#created.inc();
  }

  failed(): void {
    this.#failed.inc();
  }

  destroyed(reason: DestroyedReason): void {
    this.#destroyed.inc({ reason });
  }

  launched(seconds: number): void {
    this.#launch.observe(seconds);
  }
}
