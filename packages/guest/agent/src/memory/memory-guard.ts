import { setTimeout } from 'node:timers/promises';
import { GVISOR_OWN_MEMORY_BYTES } from '@cloche/layout';

/** Highest rate at which memory can be filled, in bytes per millisecond. Sets the pause before the next check. */
const FASTEST = 2 * 1024 * 1024;
const SHORTEST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 250;
/** Longest time for killed processes to end, and longest time for releasing their shared memory. */
const END_MS = 500;
const RELEASE_MS = 2000;
/** Time after a late check, or one of nearly full memory, in which the host is assumed to have killed what was killed. */
const HOST_KILL_MS = 1000;
/** Share of the limit from which the host may kill first: it also counts what gVisor itself has allocated. */
const NEARLY_FULL = 0.75;

/** Measurements and actions that the guard uses. */
export interface MemoryReadings {
  /** Bytes used by programs, including shared memory and files without a name. */
  usedBytes(): number;
  /** Frees memory that only improves speed. Returns whether there was any. */
  release(): boolean;
  candidates(): readonly Candidate[];
  kill(group: number): void;
  isAlive(group: number): boolean;
  /** Frees shared memory that no process uses. Returns whether some is still in use. */
  releaseShared(signal: AbortSignal): Promise<boolean>;
}

/** A process group. Killing a group also kills what a kernel or command has forked, before it can fork more. */
export interface Candidate {
  readonly group: number;
  readonly residentBytes: number;
  /** Value of `oom_score_adj`: thousandths of all memory that are added to the group's own. */
  readonly adjustment: number;
}

/**
 * Kills a process group when the sandbox exceeds its memory, as a Linux kernel would. gVisor's kernel does not: the
 * host would kill gVisor and so the whole sandbox. The guard checks more often the less memory is free.
 */
export class MemoryGuard {
  readonly #limitBytes: number;
  readonly #readings: MemoryReadings;
  #settling: Promise<void> | undefined;
  #kills = 0;
  #lastLook: { readonly at: number; readonly usedBytes: number } | undefined;
  #mayHaveKilledAt = Number.NEGATIVE_INFINITY;

  constructor(limitBytes: number, readings: MemoryReadings) {
    this.#limitBytes = limitBytes;
    this.#readings = readings;
  }

  /** Number of groups that the guard has killed. */
  get kills(): number {
    return this.#kills;
  }

  /**
   * Returns whether the host may have killed a process. On a busy machine a check can be so late that programs have
   * filled even the memory that the host grants beyond the limit, and that grant can be too small for gVisor's own
   * memory. The agent cannot read the host's own count of kills.
   */
  hostMayHaveKilled(): boolean {
    return this.#isLate() || performance.now() - this.#mayHaveKilledAt < HOST_KILL_MS;
  }

  #isLate(): boolean {
    if (this.#lastLook === undefined) return false;
    const { at, usedBytes } = this.#lastLook;
    return usedBytes + (performance.now() - at) * FASTEST > this.#limitBytes + GVISOR_OWN_MEMORY_BYTES;
  }

  /** Checks repeatedly until `signal` aborts. */
  async watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.look();
      await setTimeout(this.#pauseMs(), undefined, { ref: false });
    }
  }

  /** Kills one group if memory is short, unless the last killed group has not released its memory yet. */
  look(): void {
    if (this.#settling || !this.#isShort()) return;
    if (this.#readings.release()) return;
    const candidates = this.#readings.candidates();
    const worst = candidates.toSorted((a, b) => this.#score(b) - this.#score(a))[0];
    if (worst !== undefined) {
      this.#kills += 1;
      this.#readings.kill(worst.group);
    }
    this.#settling = this.#settle(worst?.group).finally(() => {
      this.#settling = undefined;
    });
  }

  async #settle(group: number | undefined): Promise<void> {
    const deadline = AbortSignal.timeout(END_MS);
    while (group !== undefined && !deadline.aborted && this.#readings.isAlive(group))
      await setTimeout(SHORTEST_PAUSE_MS);
    const limit = AbortSignal.timeout(RELEASE_MS);
    // At least once: shared memory that a killed group leaves can be within the limit but too much for the next
    // program.
    while ((await this.#readings.releaseShared(limit)) && !limit.aborted && (this.#isShort() || !deadline.aborted)) {
      await setTimeout(SHORTEST_PAUSE_MS);
    }
  }

  #isShort(): boolean {
    const wasLate = this.#isLate();
    const at = performance.now();
    const usedBytes = this.#readings.usedBytes();
    if (wasLate || usedBytes > NEARLY_FULL * this.#limitBytes) this.#mayHaveKilledAt = performance.now();
    this.#lastLook = { at, usedBytes };
    return usedBytes > this.#limitBytes;
  }

  #score({ residentBytes, adjustment }: Candidate): number {
    return residentBytes + (adjustment / 1000) * this.#limitBytes;
  }

  #pauseMs(): number {
    const freeBytes = this.#limitBytes - this.#readings.usedBytes();
    return Math.min(LONGEST_PAUSE_MS, Math.max(SHORTEST_PAUSE_MS, freeBytes / FASTEST));
  }
}
