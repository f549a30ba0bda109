export const WINDOW_SECONDS = 60;
/** Counts further ahead are from before the clock was set back. Clocks of servers differ by less. */
const AHEAD_SECONDS = 5;

/**
 * Requests of one organization or project by second. A second counts until it is a whole minute old. The sum is kept
 * for the current second, so that a request does not add up a minute.
 */
export class Window {
  readonly #own = new Map<number, number>();
  #others = new Map<number, number>();
  /** Seconds whose own counts the database does not have yet. */
  readonly unwritten = new Set<number>();
  #summed: { readonly second: number; total: number; oldest: number | undefined } | undefined;

  /** Takes over the counts of other processes, as of the last synchronization. */
  set others(counts: Map<number, number>) {
    this.#others = counts;
    this.#summed = undefined;
  }

  ownOf(second: number): number {
    return this.#own.get(second) ?? 0;
  }

  add(second: number): void {
    this.#own.set(second, this.ownOf(second) + 1);
    this.unwritten.add(second);
    if (this.#summed?.second !== second) return;
    this.#summed.total += 1;
    this.#summed.oldest ??= second;
  }

  count(second: number): number {
    return this.#sumUp(second).total;
  }

  /** Returns the second after which enough counted requests are over a minute old to leave room for one more. */
  roomAfter(second: number, limit: number): number {
    const { total, oldest } = this.#sumUp(second);
    let excess = total - limit + 1;
    if (excess <= 1) return (oldest ?? second) + WINDOW_SECONDS;
    for (const [counted, requests] of this.#bySecond(second).sort(([a], [b]) => a - b)) {
      excess -= requests;
      if (excess <= 0) return counted + WINDOW_SECONDS;
    }
    return second + WINDOW_SECONDS;
  }

  forget(before: number): void {
    for (const second of this.#own.keys()) if (second < before) this.#own.delete(second);
  }

  #sumUp(second: number) {
    if (this.#summed?.second === second) return this.#summed;
    let total = 0;
    let oldest: number | undefined;
    for (const [counted, requests] of this.#bySecond(second)) {
      total += requests;
      if (oldest === undefined || counted < oldest) oldest = counted;
    }
    this.#summed = { second, total, oldest };
    return this.#summed;
  }

  #bySecond(second: number): [number, number][] {
    return [...this.#own, ...this.#others].filter(
      ([counted]) => counted >= second - WINDOW_SECONDS && counted <= second + AHEAD_SECONDS,
    );
  }
}
