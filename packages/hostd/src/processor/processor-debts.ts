/** Processor time that a sandbox may use beyond its share before it goes behind the others: some fifteen short runs. */
const CREDIT_US = 30_000;
/** Processor time of a launch with its first kernel. A sandbox that was launched ahead has used most of it already. */
const LAUNCH_US = 150_000;
/** Looks after which what a launch has not used is forfeited, so that no code of the sandbox uses it. */
const LAUNCH_LOOKS = 4;
/** Since the last look: what used less takes part in no sharing. */
const ACTIVE_US = 1000;
/**
 * Of what active sandboxes used on average. At one half, those within their share never take all: the others have the other
 * half at least.
 */
const SHARE = 1 / 2;
/** In a row, without a thread that wants a processor: then a sandbox that was behind is among the others again. */
const IDLE_LOOKS = 4;

interface Account {
  usedUs: number;
  debtUs: number;
  looks: number;
  /** Undefined for a sandbox that is not behind the others. */
  idleLooks: number | undefined;
}

/**
 * Decides which sandboxes go behind the others while processors are contended. What a sandbox uses beyond its share fills a
 * bucket; when it is full, the sandbox goes behind the others. There it uses little, since it gets little: so it comes
 * back not by what it uses, but when it has wanted nothing for a while.
 */
export class ProcessorDebts<Key> {
  readonly #accounts = new Map<Key, Account>();

  /** Begins a time of contention: what was used before it costs nothing. Debts of an earlier such time stay. */
  begin(usedUs: ReadonlyMap<Key, number>): void {
    for (const [key, account] of this.#accounts) account.usedUs = usedUs.get(key) ?? account.usedUs;
  }

  /**
   * @param usedUs processor time of each sandbox that lives, since it was started
   * @param wants whether a thread of a sandbox runs, or waits for a processor; asked for those that are behind
   * @returns the sandboxes whose place changed: `true` for those that go behind the others now
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
          looks: 0,
          idleLooks: undefined,
        });
      else lately.push({ key, account, us: used - account.usedUs });
    }
    const active = lately.filter(({ us }) => us > ACTIVE_US);
    const shareUs = (SHARE * active.reduce((sum, { us }) => sum + us, 0)) / Math.max(1, active.length);
    const changed = new Map<Key, boolean>();
    for (const { key, account, us } of lately) {
      account.usedUs += us;
      account.looks += 1;
      if (account.looks === LAUNCH_LOOKS) account.debtUs = Math.max(0, account.debtUs);
      if (account.idleLooks === undefined) {
        account.debtUs = Math.max(Math.min(0, account.debtUs), account.debtUs + us - shareUs);
        if (account.debtUs <= CREDIT_US) continue;
        account.idleLooks = 0;
        changed.set(key, true);
      } else {
        account.idleLooks = wants(key) ? 0 : account.idleLooks + 1;
        if (account.idleLooks < IDLE_LOOKS) continue;
        Object.assign(account, { debtUs: 0, idleLooks: undefined });
        changed.set(key, false);
      }
    }
    return changed;
  }
}
