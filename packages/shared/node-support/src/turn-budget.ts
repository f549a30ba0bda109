/**
 * Limits how much work is done for a sandbox or a tenant in one turn of the event loop. The rest is done in later turns,
 * so that others get their turn. This is no `Semaphore`: a semaphore counts slots that are held and released; here
 * each piece of work has a cost, and every turn refills the budget.
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

  /** Whether nothing is owed and nothing waits. */
  get isIdle(): boolean {
    return this.#left === this.#perTurn;
  }

  /** Counts work that was done already. Later work is delayed accordingly. */
  charge(cost: number): void {
    this.#left -= cost;
    this.#proceed();
  }

  /** Resolves in a turn with budget left. */
  next(cost: number): Promise<void> {
    return new Promise((resolve) => this.spend(cost, resolve));
  }

  /** Calls `proceed` now, or in the turn in which earlier work has been paid for. */
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
