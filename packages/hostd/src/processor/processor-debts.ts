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
/** Consecutive checks without a runnable thread after which a sandbox loses its low priority. */
const IDLE_CHECKS = 4;

interface Account {
  usedUs: number;
  debtUs: number;
  checks: number;
  /** Undefined for a sandbox without low priority. */
  idleChecks: number | undefined;
}

/**
 * Decides which sandboxes get a low priority while processors are contended. Time that a sandbox uses beyond its share
 * adds to its debt; above the credit, the sandbox gets a low priority. With that it gets and therefore uses little, so
 * its use cannot show when to end it. The low priority ends once the sandbox has wanted no processor for a while.
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
          idleChecks: undefined,
        });
      else lately.push({ key, account, us: used - account.usedUs });
    }
    const active = lately.filter(({ us }) => us > ACTIVE_US);
    const shareUs = (SHARE * active.reduce((sum, { us }) => sum + us, 0)) / Math.max(1, active.length);
    const changed = new Map<Key, boolean>();
    for (const { key, account, us } of lately) {
      account.usedUs += us;
      account.checks += 1;
      if (account.checks === LAUNCH_CHECKS) account.debtUs = Math.max(0, account.debtUs);
      if (account.idleChecks === undefined) {
        account.debtUs = Math.max(Math.min(0, account.debtUs), account.debtUs + us - shareUs);
        if (account.debtUs <= CREDIT_US) continue;
        account.idleChecks = 0;
        changed.set(key, true);
      } else {
        account.idleChecks = wants(key) ? 0 : account.idleChecks + 1;
        if (account.idleChecks < IDLE_CHECKS) continue;
        account.debtUs = 0;
        account.idleChecks = undefined;
        changed.set(key, false);
      }
    }
    return changed;
  }
}
