import type { SandboxId } from '@cloche/contract';
import type { Logger } from 'pino';
import type { Clock } from '../../../platform/base/clock.ts';
import { UNAUDITED } from '../../../platform/call/call.ts';
import type { Executions } from '../../sandbox-records/executions.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../../sandbox-status/status-facts.ts';
import type { AskAgents } from './ask-agents.ts';
import type { DestroySandbox } from './destroy-sandbox.ts';
import type { LastUse, LastUses } from './last-uses.ts';

/** Longest sleep between sweeps. Bounds how late a changed TTL or a clock that was moved forward is noticed. */
const MAX_SLEEP_MS = 500;
const MIN_SLEEP_MS = 5;

export interface ReaperDeps {
  readonly sandboxes: SandboxRepository;
  readonly destroySandbox: DestroySandbox;
  readonly executions: Executions;
  readonly lastUses: LastUses;
  readonly askAgents: AskAgents;
  /** Whether this server has lost its lease, so that it may not know the latest activity on other servers. */
  readonly isFenced: () => boolean;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Destroys expired sandboxes. It sweeps the records, so a sandbox still expires after its server died. */
export class Reaper {
  readonly #deps: ReaperDeps;
  /** Sandboxes that are being checked for expiry or are being destroyed. */
  readonly #ending = new Set<SandboxId>();

  constructor(deps: ReaperDeps) {
    this.#deps = deps;
  }

  /**
   * Destroys every sandbox that is due, concurrently. Returns `sleepMs`, the time until the next sweep, and `ended`,
   * which resolves when all of them were handled and never rejects.
   */
  async sweep(): Promise<{ ended: Promise<unknown>; sleepMs: number }> {
    const { sandboxes, lastUses, askAgents, clock } = this.#deps;
    const now = clock.now();
    const expired = await sandboxes.listExpired(now);
    const endings = expired.map((record) =>
      this.#end(record, factsOf(record).onExpiry, ({ expiresAt }) => expiresAt <= clock.now()),
    );
    let next = (await sandboxes.nextExpiry()) ?? Number.POSITIVE_INFINITY;
    const idle = await sandboxes.listWithIdleTimeout();
    const lastUse = await lastUses.read(idle);
    askAgents.keep(idle);
    for (const record of idle) {
      const deadline = idleDeadline(record, lastUse);
      if (deadline <= clock.now()) endings.push(this.#end(record, 'idle_expired', (seen) => this.#isIdleOut(seen)));
      else next = Math.min(next, deadline);
    }
    const sleepMs = Math.max(MIN_SLEEP_MS, Math.min(next - clock.now(), MAX_SLEEP_MS));
    return { ended: Promise.all(endings), sleepMs };
  }

  async #end(
    record: SandboxRecord,
    reason: 'ttl_expired' | 'idle_expired',
    stillDue: (record: SandboxRecord) => boolean | Promise<boolean>,
  ): Promise<void> {
    const { destroySandbox, log } = this.#deps;
    if (this.#ending.has(record.id)) return;
    this.#ending.add(record.id);
    try {
      await destroySandbox.destroy(UNAUDITED, record.id, reason, stillDue);
    } catch (error) {
      log.warn({ err: error, sandboxId: record.id }, 'an expired sandbox could not be ended yet');
    } finally {
      this.#ending.delete(record.id);
    }
  }

  /** Asks the agent before the servers' records, so that these are up to date when the end is written. */
  async #isIdleOut(record: SandboxRecord): Promise<boolean> {
    const { askAgents, lastUses, executions, isFenced, clock } = this.#deps;
    if (factsOf(record).onIdle !== 'destroy') return false;
    if (await askAgents.isRunning(record)) {
      executions.touch(record.id);
      return false;
    }
    const deadline = idleDeadline(record, await lastUses.read([record]));
    // Checked again, because the process may have been stopped for a while.
    return deadline <= clock.now() && !isFenced();
  }
}

function idleDeadline(record: SandboxRecord, lastUse: LastUse): number {
  return lastUse(record) + (record.idleTimeoutMs ?? Number.POSITIVE_INFINITY);
}
