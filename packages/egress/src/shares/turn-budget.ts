/**
 * Bounds how much small work is done for a sandbox in one turn of the event loop. The rest is done in later turns, so that
 * others come in between.
 */
export class TurnBudget {
  readonly #perTurn: number;
  readonly #waiting: { proceed: () => void; cost: number }[] = [];
  #left: number;
  #isTurning = false;

  constructor(perTurn: number) {
    this.#perTurn = perTurn;
    this.#left = perTurn;
  }

  /** Counts what was done already, and delays what is spent next. */
  charge(cost: number): void {
    this.#left -= cost;
    this.#proceed();
  }

  /** Resolves in a turn that can pay. */
  next(cost: number): Promise<void> {
    return new Promise((resolve) => this.spend(cost, resolve));
  }

  /** Calls `proceed` now, or in the turn that can pay for what was spent before. */
  spend(cost: number, proceed: () => void): void {
    this.#waiting.push({ proceed, cost });
    this.#proceed();
  }

  #proceed(): void {
    while (this.#left > 0) {
      const next = this.#waiting.shift();
      if (!next) break;
      this.#left -= next.cost;
      next.proceed();
    }
    if (this.#isTurning || this.#left === this.#perTurn) return;
    this.#isTurning = true;
    setImmediate(() => {
      this.#isTurning = false;
      this.#left = Math.min(this.#perTurn, this.#left + this.#perTurn);
      this.#proceed();
    });
  }
}
