import type { SandboxId } from '@cloche/contract';
import type { Logger } from 'pino';
import type { Clock } from '../../../platform/base/clock.ts';
import { UNAUDITED } from '../../../platform/call/call.ts';
import type { AutomaticPauses } from '../../pauses/automatic-pauses.ts';
import type { Executions } from '../../sandbox-records/executions.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../../sandbox-status/status-facts.ts';
import type { AskAgents } from './ask-agents.ts';
import type { DestroySandbox } from './destroy-sandbox.ts';
import type { IdleLoad } from './idle-load.ts';
import type { LastUse, LastUses } from './last-uses.ts';

/** Longest sleep between sweeps. Bounds how late a changed TTL or a clock that was moved forward is noticed. */
const MAX_SLEEP_MS = 500;
/** Sleep while the counters of idle sandboxes are read. */
const READING_SLEEP_MS = 50;
const MIN_SLEEP_MS = 5;

export interface ReaperDeps {
  readonly sandboxes: SandboxRepository;
  readonly destroySandbox: DestroySandbox;
  readonly automaticPauses: AutomaticPauses;
  readonly executions: Executions;
  readonly lastUses: LastUses;
  readonly idleLoad: IdleLoad;
  readonly askAgents: AskAgents;
  /** Whether this server has lost its lease, so that it may not know the latest activity on other servers. */
  readonly isFenced: () => boolean;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Destroys or pauses sandboxes whose lifetime or idle time is over. It sweeps the records, so a sandbox still expires
 * after its server died.
 */
export class Reaper {
  readonly #deps: ReaperDeps;
  /** Sandboxes that are being checked for expiry, destroyed or paused. */
  readonly #ending = new Set<SandboxId>();

  constructor(deps: ReaperDeps) {
    this.#deps = deps;
  }

  /**
   * Handles every sandbox that is due, concurrently. Returns `sleepMs`, the time until the next sweep, and `ended`,
   * which resolves when all of them were handled and never rejects.
   */
  async sweep(): Promise<{ ended: Promise<unknown>; sleepMs: number }> {
    const { sandboxes, automaticPauses, lastUses, idleLoad, askAgents, clock } = this.#deps;
    const now = clock.now();
    automaticPauses.tidy();
    const endings = (await sandboxes.listExpired(now)).map((record) =>
      this.#handle(record, () => this.#expire(record)),
    );
    let next = (await sandboxes.nextExpiry(now)) ?? Number.POSITIVE_INFINITY;
    const timed = await sandboxes.listWithIdleTimeout();
    const lastUse = await lastUses.read(timed);
    askAgents.keep(timed);
    idleLoad.follow(timed, lastUse);
    for (const record of timed) {
      const deadline = idleDeadline(record, lastUse);
      if (deadline > clock.now()) next = Math.min(next, deadline);
      else endings.push(this.#handle(record, () => this.#endIdle(record)));
    }
    const longest = idleLoad.isReading ? READING_SLEEP_MS : MAX_SLEEP_MS;
    const sleepMs = Math.max(MIN_SLEEP_MS, Math.min(next - clock.now(), longest));
    return { ended: Promise.all(endings), sleepMs };
  }

  async #handle(record: SandboxRecord, act: () => Promise<unknown>): Promise<void> {
    if (this.#ending.has(record.id)) return;
    this.#ending.add(record.id);
    try {
      await act();
    } catch (error) {
      this.#deps.log.warn({ err: error, sandboxId: record.id }, 'an expired sandbox could not be ended yet');
    } finally {
      this.#ending.delete(record.id);
    }
  }

  async #expire(record: SandboxRecord): Promise<void> {
    const { destroySandbox, automaticPauses, clock } = this.#deps;
    const { whenPausedAtExpiry, onExpiry } = factsOf(record);
    if (record.pause.onExpiry && whenPausedAtExpiry !== 'ends') {
      if (automaticPauses.waits(record)) return;
      if (whenPausedAtExpiry === 'settles') return automaticPauses.settle(record);
      if (whenPausedAtExpiry === 'waits' || (await automaticPauses.atExpiry(record))) return;
    }
    await destroySandbox.destroy(UNAUDITED, record.id, onExpiry, ({ expiresAt }) => expiresAt <= clock.now());
  }

  async #endIdle(record: SandboxRecord): Promise<void> {
    const { destroySandbox, automaticPauses, idleLoad } = this.#deps;
    if (record.pause.afterIdleMs === undefined) {
      await destroySandbox.destroy(UNAUDITED, record.id, 'idle_expired', (seen) => this.#isIdleOut(seen));
    } else if (idleLoad.isLow(record) && !automaticPauses.waits(record) && (await this.#isPastDeadline(record))) {
      await automaticPauses.whenIdle(record, () => this.#isPastDeadline(record));
    }
  }

  /** Asks the agent before the servers' records, so that these are up to date when the end is written. */
  async #isIdleOut(record: SandboxRecord): Promise<boolean> {
    const { askAgents, executions } = this.#deps;
    if (factsOf(record).onIdle !== 'destroy') return false;
    if (await askAgents.isRunning(record)) {
      executions.touch(record.id);
      return false;
    }
    return this.#isPastDeadline(record);
  }

  /** Checked again, because the process may have been stopped for a while. */
  async #isPastDeadline(record: SandboxRecord): Promise<boolean> {
    const { lastUses, isFenced, clock } = this.#deps;
    const deadline = idleDeadline(record, await lastUses.read([record]));
    return deadline <= clock.now() && !isFenced();
  }
}

function idleDeadline(record: SandboxRecord, lastUse: LastUse): number {
  return lastUse(record) + (record.idleTimeoutMs ?? record.pause.afterIdleMs ?? Number.POSITIVE_INFINITY);
}
