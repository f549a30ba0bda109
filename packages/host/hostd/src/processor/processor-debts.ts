/**
 * Processor time that a sandbox may use beyond its share before it gets a low priority; enough for about fifteen short
 * runs.
 */
const CREDIT_US = 30_000;
/** Processor time of a launch with its first kernel. A sandbox that was launched ahead has already used most of it. */
const LAUNCH_US = 150_000;
/** Checks after which the rest of a launch's allowance is forfeited, so that the sandbox's code cannot use it. */
const LAUNCH_CHECKS = 4;
/** Processor time since the last check below which a sandbox does not count as active. */
const ACTIVE_US = 1000;
/**
 * Share of the average use of active sandboxes. At one half, the sandboxes within their share never use more than half
 * of the time, so the others get at least the other half.
 */
const SHARE = 1 / 2;
/**
 * Consecutive checks after which a sandbox loses its low priority because it wanted no processor time, or because no
 * other sandbox wanted any.
 */
const USELESS_CHECKS = 4;

interface Account {
  usedUs: number;
  debtUs: number;
  checks: number;
  /** Consecutive checks at which the low priority was of no use to another sandbox. Undefined without low priority. */
  uselessChecks: number | undefined;
}

/**
 * Decides which sandboxes get a low priority while processors are contended. Time that a sandbox uses beyond its share
 * adds to its debt; above the credit, the sandbox gets a low priority. A sandbox with low priority gets little
 * processor time, so its use does not show when the low priority can end. It ends once the sandbox has wanted no
 * processor for a while, or has been the only one that wanted one.
 */
export class ProcessorDebts<Key> {
  readonly #accounts = new Map<Key, Account>();

  /** Starts a period of contention: time used before it adds no debt. Debts of earlier periods stay. */
  begin(usedUs: ReadonlyMap<Key, number>): void {
    for (const [key, account] of this.#accounts) account.usedUs = usedUs.get(key) ?? account.usedUs;
  }

  /**
   * Updates the debts.
   * @param usedUs processor time of each live sandbox since its start
   * @param wants returns whether a thread of a sandbox runs or waits for a processor; called for sandboxes
   * with low priority
   * @returns the sandboxes that changed: `true` for those that get a low priority now
   */
  update(usedUs: ReadonlyMap<Key, number>, wants: (key: Key) => boolean): Map<Key, boolean> {
    for (const key of this.#accounts.keys()) if (!usedUs.has(key)) this.#accounts.delete(key);
    const lately: { key: Key; account: Account; us: number }[] = [];
    for (const [key, used] of usedUs) {
      const account = this.#accounts.get(key);
      if (account === undefined)
        this.#accounts.set(key, {
          usedUs: used,
          debtUs: Math.min(0, used - LAUNCH_US),
          checks: 0,
          uselessChecks: undefined,
        });
      else lately.push({ key, account, us: used - account.usedUs });
    }
    const active = lately.filter(({ us }) => us > ACTIVE_US);
    // The use of a sandbox with low priority is small even if it wants much, so its threads are checked instead.
    const wanting = new Set(lately.filter(({ key, account }) => account.uselessChecks !== undefined && wants(key)));
    // A sandbox without competitors keeps its priority; otherwise instances launched ahead of demand would run before
    // it.
    const isAlone = new Set([...active, ...wanting]).size <= 1;
    const shareUs = (SHARE * active.reduce((sum, { us }) => sum + us, 0)) / Math.max(1, active.length);
    const changed = new Map<Key, boolean>();
    for (const one of lately) {
      const { key, account, us } = one;
      account.usedUs += us;
      account.checks += 1;
      if (account.checks === LAUNCH_CHECKS) account.debtUs = Math.max(0, account.debtUs);
      if (account.uselessChecks === undefined) {
        if (isAlone) continue;
        account.debtUs = Math.max(Math.min(0, account.debtUs), account.debtUs + us - shareUs);
        if (account.debtUs <= CREDIT_US) continue;
        account.uselessChecks = 0;
        changed.set(key, true);
      } else {
        account.uselessChecks = wanting.has(one) && !isAlone ? 0 : account.uselessChecks + 1;
        if (account.uselessChecks < USELESS_CHECKS) continue;
        account.debtUs = 0;
        account.uselessChecks = undefined;
        changed.set(key, false);
      }
    }
    return changed;
  }
}
