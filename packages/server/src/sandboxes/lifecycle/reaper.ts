import type { Logger } from 'pino';
import type { Clock } from '../../base/clock.ts';
import type { Executions } from '../record/executions.ts';
import type { SandboxRecord } from '../record/sandbox.ts';
import type { SandboxRepository } from '../record/sandbox-repository.ts';
import type { DestroySandbox } from './destroy-sandbox.ts';

/** Longest sleep between sweeps. Bounds how late a changed TTL or a clock that was moved forward is noticed. */
const MAX_SLEEP_MS = 500;
const MIN_SLEEP_MS = 5;
/** How far the recorded activity may lag behind the actual activity. */
const ACTIVITY_FLUSH_MS = 5_000;

export interface ReaperDeps {
  readonly sandboxes: SandboxRepository;
  readonly destroySandbox: DestroySandbox;
  readonly executions: Executions;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Destroys expired sandboxes. It sweeps the records, so a sandbox still expires after its server died. */
export class Reaper {
  readonly #deps: ReaperDeps;

  constructor(deps: ReaperDeps) {
    this.#deps = deps;
  }

  /**
   * Destroys every sandbox that is due, concurrently. Returns `sleepMs`, the time until the next sweep, and `ended`,
   * which resolves when all of them were handled and never rejects.
   */
  async sweep(): Promise<{ ended: Promise<unknown>; sleepMs: number }> {
    const { sandboxes, clock } = this.#deps;
    const now = clock.now();
    const expired = await sandboxes.listExpired(now);
    const endings = expired.map((record) =>
      this.#end(record, 'ttl_expired', ({ expiresAt }) => expiresAt <= clock.now()),
    );
    let next = (await sandboxes.nextExpiry()) ?? Number.POSITIVE_INFINITY;
    for (const record of await sandboxes.listWithIdleTimeout()) {
      await this.#flushActivity(record);
      if (this.#isIdleOut(record)) endings.push(this.#end(record, 'idle_expired', (seen) => this.#isIdleOut(seen)));
      else next = Math.min(next, this.#idleDeadline(record));
    }
    const sleepMs = Math.max(MIN_SLEEP_MS, Math.min(next - clock.now(), MAX_SLEEP_MS));
    return { ended: Promise.all(endings), sleepMs };
  }

  async #end(
    record: SandboxRecord,
    reason: 'ttl_expired' | 'idle_expired',
    stillDue: (record: SandboxRecord) => boolean,
  ): Promise<void> {
    const { destroySandbox, log } = this.#deps;
    await destroySandbox.destroy(record.id, reason, stillDue).catch((error) => {
      log.warn({ err: error, sandboxId: record.id }, 'an expired sandbox could not be ended yet');
    });
  }

  #isIdleOut(record: SandboxRecord): boolean {
    return record.status === 'ready' && this.#idleDeadline(record) <= this.#deps.clock.now();
  }

  #idleDeadline(record: SandboxRecord): number {
    const { executions } = this.#deps;
    if (record.idleTimeoutMs === undefined || executions.isRunning(record.id)) return Number.POSITIVE_INFINITY;
    const seen = executions.lastActiveAt(record.id);
    // The recorded activity may lag by one flush interval, unless the sandbox was never used.
    const written = (record.lastActiveAt ?? record.createdAt) + (record.used ? ACTIVITY_FLUSH_MS : 0);
    return (seen ?? written) + record.idleTimeoutMs;
  }

  async #flushActivity(record: SandboxRecord): Promise<void> {
    const { executions, clock, sandboxes } = this.#deps;
    const seen = executions.isRunning(record.id) ? clock.now() : executions.lastActiveAt(record.id);
    if (seen === undefined || seen - (record.lastActiveAt ?? 0) < ACTIVITY_FLUSH_MS) return;
    await sandboxes.recordActivity(record.id, seen);
  }
}
