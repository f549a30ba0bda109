import type { ResourceEvent } from '@cloche/contract';
import { Counter, Histogram, type Registry } from 'prom-client';

/** Lifecycle metrics for operators, counted from the events that this server appends. */
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

  count(event: ResourceEvent): void {
    if (event.type === 'sandbox.created') this.#created.inc();
    if (event.type === 'sandbox.failed') this.#failed.inc();
    if (event.type === 'sandbox.destroyed') {
      // The transition `destroy` always records a reason; the fallback satisfies the type.
      this.#destroyed.inc({ reason: event.data.sandbox.destroyedReason ?? 'platform_cleanup' });
    }
  }

  launched(seconds: number): void {
    this.#launch.observe(seconds);
  }
}
