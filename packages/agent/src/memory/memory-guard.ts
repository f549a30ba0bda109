import { setTimeout } from 'node:timers/promises';

/** What memory can be filled with at most, in bytes a millisecond: the next look comes before it is full. */
const FASTEST = 2 * 1024 * 1024;
const SHORTEST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 250;
/** How long what was killed may take to end, and then what it leaves behind to go. */
const END_MS = 500;
const RELEASE_MS = 2000;

/** What memory is guarded by. */
export interface MemoryReadings {
  /** What programs have, with what they share and have in files without a name. */
  usedBytes(): number;
  /** Gives back what only makes things quicker. Whether there was some. */
  release(): boolean;
  candidates(): readonly Candidate[];
  kill(group: number): void;
  isAlive(group: number): boolean;
  /** Takes away shared memory that no process has any more. Whether there is some that one has, or is about to lose. */
  releaseShared(signal: AbortSignal): Promise<boolean>;
}

/** A group of processes: those that a kernel or command has forked end with it, before there are more of them. */
export interface Candidate {
  readonly group: number;
  readonly residentBytes: number;
  /** As `oom_score_adj` has it: thousandths of all memory that count as if it had them too. */
  readonly adjustment: number;
}

/**
 * Ends what takes more memory than a sandbox has, as a kernel of the host's does. gVisor's kernel does not, and the host
 * would end it with all that runs in it. It looks often where memory is short, and seldom where there is plenty.
 */
export class MemoryGuard {
  readonly #limitBytes: number;
  readonly #readings: MemoryReadings;
  #settling: Promise<void> | undefined;
  #kills = 0;

  constructor(limitBytes: number, readings: MemoryReadings) {
    this.#limitBytes = limitBytes;
    this.#readings = readings;
  }

  /** How many groups it has killed. */
  get kills(): number {
    return this.#kills;
  }

  /** Looks until `signal` aborts. */
  async watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.look();
      await setTimeout(this.#pauseMs(), undefined, { ref: false });
    }
  }

  /** Kills one group if there is too little memory, unless what was killed last is about to give back some. */
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
    // Once at least: what it leaves may be within the limit, and too much for the next process.
    while ((await this.#readings.releaseShared(limit)) && !limit.aborted && (this.#isShort() || !deadline.aborted)) {
      await setTimeout(SHORTEST_PAUSE_MS);
    }
  }

  #isShort(): boolean {
    return this.#readings.usedBytes() > this.#limitBytes;
  }

  #score({ residentBytes, adjustment }: Candidate): number {
    return residentBytes + (adjustment / 1000) * this.#limitBytes;
  }

  #pauseMs(): number {
    const freeBytes = this.#limitBytes - this.#readings.usedBytes();
    return Math.min(LONGEST_PAUSE_MS, Math.max(SHORTEST_PAUSE_MS, freeBytes / FASTEST));
  }
}
