import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Cgroups } from '../cgroups/cgroups.ts';
import { countLocks, countLocksOfProcess } from './count-locks.ts';

const INTERVAL_MS = 1000;
/** Locks of the whole host, which take 48 MB of kernel memory. Below this number no process is inspected. */
const CHECKED_FROM = 250_000;
/** Locks that one sandbox may hold, which take 19 MB of kernel memory. */
const MAX_LOCKS_PER_SANDBOX = 100_000;
/** Locks below which a process is spared, so that only the processes that took many are killed. */
const MAX_LOCKS_OF_A_SPARED_PROCESS = 1000;

export interface LockWatchOptions {
  groups: Pick<Cgroups, 'processesOf' | 'killProcesses'>;
  /** Returns the instances that run a client's code. */
  keys: () => readonly string[];
  log: Logger;
  intervalMs?: number;
  /** Returns the host's locks; undefined where this kernel does not expose them. */
  count?: () => number | undefined;
  countHeld?: (pid: number) => Promise<number>;
}

/**
 * Limits byte-range locks on files. Linux does not limit them and charges them to no control group (192 bytes each), so
 * a process that takes a million of them a second exhausts the host's memory. An instance that holds too many has those
 * processes killed.
 */
export class LockWatch {
  readonly #options: Required<LockWatchOptions>;
  readonly #closing = new AbortController();
  readonly #closed: Promise<void>;
  /** Locks attributed to other programs: the last count while no sandbox had too many, or a lower one since. */
  #locksOfOthers = 0;

  constructor(options: LockWatchOptions) {
    this.#options = { intervalMs: INTERVAL_MS, count: countLocks, countHeld: countLocksOfProcess, ...options };
    this.#closed = this.#watch();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#closed;
  }

  async #watch(): Promise<void> {
    const { signal } = this.#closing;
    const { count, intervalMs, log } = this.#options;
    if (count() === undefined) {
      log.warn({ operation: 'watch locks', outcome: 'unavailable' });
      return;
    }
    while (!signal.aborted) {
      await this.#check().catch((err) => log.error({ operation: 'watch locks', outcome: 'failed', err }));
      await delay(intervalMs, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  async #check(): Promise<void> {
    const count = this.#options.count() ?? 0;
    this.#locksOfOthers = Math.min(this.#locksOfOthers, count);
    if (count - this.#locksOfOthers < CHECKED_FROM) return;
    const excessive = await Promise.all(this.#options.keys().map((key) => this.#enforceLimit(key)));
    if (!excessive.includes(true)) this.#locksOfOthers = count;
  }

  /** Kills the processes of an instance that hold its locks if it holds too many. Returns whether it did. */
  async #enforceLimit(key: string): Promise<boolean> {
    const { groups, countHeld, log } = this.#options;
    const holders = new Set<number>();
    let locks = 0;
    for (const pid of groups.processesOf(key)) {
      const held = await countHeld(pid);
      if (held > MAX_LOCKS_OF_A_SPARED_PROCESS) holders.add(pid);
      locks += held;
    }
    if (locks <= MAX_LOCKS_PER_SANDBOX) return false;
    groups.killProcesses(key, holders);
    log.warn({ operation: 'watch locks', outcome: 'killed', instance: key, locks, processes: holders.size });
    return true;
  }
}
