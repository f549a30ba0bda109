export interface InFlightLimits {
  total: number;
  perSource: number;
}

/** Counts what is under way, in all and for each source, so that one sandbox cannot use up what all of them share. */
export class InFlight {
  readonly #limits: InFlightLimits;
  readonly #bySource = new Map<string, number>();
  #total = 0;

  constructor(limits: InFlightLimits) {
    this.#limits = limits;
  }

  /** A place to be given back by disposing of it, or undefined when there is none. */
  tryEnter(source: string): Disposable | undefined {
    const ofSource = this.#bySource.get(source) ?? 0;
    if (this.#total >= this.#limits.total || ofSource >= this.#limits.perSource) return undefined;
    this.#total += 1;
    this.#bySource.set(source, ofSource + 1);
    return { [Symbol.dispose]: () => this.#leave(source) };
  }

  #leave(source: string): void {
    this.#total -= 1;
    const left = (this.#bySource.get(source) ?? 0) - 1;
    if (left > 0) this.#bySource.set(source, left);
    else this.#bySource.delete(source);
  }
}
