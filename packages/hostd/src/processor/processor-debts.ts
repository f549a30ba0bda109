/** Processor time that a sandbox may use beyond its share before it goes behind the others: some twenty short runs. */
const CREDIT_US = 50_000;
const MOST_US = 3 * CREDIT_US;
/** Since the last look: what used less takes part in no sharing. */
const ACTIVE_US = 1000;
/**
 * Of what active sandboxes used on average. At one half, those within their share never take all: the others have the other
 * half at least.
 */
const SHARE = 1 / 2;

interface Account {
  usedUs: number;
  debtUs: number;
  isBehind: boolean;
}

/**
 * Decides which sandboxes go behind the others while processors are contended: those that used more than their share
 * lately. It is a bucket of tokens for each sandbox: processor time fills it, the share drains it, and a sandbox is behind
 * from the time that it is full until it is half empty.
 */
export class ProcessorDebts<Key> {
  readonly #accounts = new Map<Key, Account>();

  /** Begins a time of contention: what was used before it costs nothing. Debts of an earlier such time stay. */
  begin(usedUs: ReadonlyMap<Key, number>): void {
    for (const [key, account] of this.#accounts) account.usedUs = usedUs.get(key) ?? account.usedUs;
  }

  /**
   * @param usedUs processor time of each sandbox that lives, since it was started
   * @returns the sandboxes whose place changed: `true` for those that go behind the others now
   */
  update(usedUs: ReadonlyMap<Key, number>): Map<Key, boolean> {
    for (const key of this.#accounts.keys()) if (!usedUs.has(key)) this.#accounts.delete(key);
    const lately = new Map<Key, number>();
    for (const [key, used] of usedUs) {
      const account = this.#accounts.get(key);
      if (account === undefined) this.#accounts.set(key, { usedUs: used, debtUs: 0, isBehind: false });
      else lately.set(key, used - account.usedUs);
    }
    const active = [...lately.values()].filter((us) => us > ACTIVE_US);
    const shareUs = (SHARE * active.reduce((sum, us) => sum + us, 0)) / Math.max(1, active.length);
    const changed = new Map<Key, boolean>();
    for (const [key, us] of lately) {
      const account = this.#accounts.get(key);
      if (account === undefined) continue;
      account.usedUs += us;
      account.debtUs = Math.min(MOST_US, Math.max(0, account.debtUs + us - shareUs));
      const isBehind = account.debtUs > (account.isBehind ? CREDIT_US / 2 : CREDIT_US);
      if (isBehind !== account.isBehind) changed.set(key, isBehind);
      account.isBehind = isBehind;
    }
    return changed;
  }
}
