import { AsyncLocalStorage } from 'node:async_hooks';
import type { Transaction as KyselyTransaction } from 'kysely';
import type { Database, Tables } from './database.ts';
import { transactionsOf } from './embedded-database.ts';

const current = new AsyncLocalStorage<Transaction>();

/**
 * An open transaction. A repository method that takes one does its work in it, so that either everything is written or
 * nothing. Pass it to every query until the transaction ends, and do not use it afterwards.
 */
export class Transaction {
  readonly #db: KyselyTransaction<Tables>;
  readonly #afterCommit: (() => void)[] = [];
  #isOpen = true;

  constructor(db: KyselyTransaction<Tables>) {
    this.#db = db;
  }

  /** False once its callback has settled; the commit or the rollback follows. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** The database as this transaction sees it. @throws Error after the end of the transaction. */
  get db(): KyselyTransaction<Tables> {
    if (!this.#isOpen) throw new Error('the transaction has ended; await each query in it');
    return this.#db;
  }

  /** Calls `act` once, after the commit and before `run` resolves; never after a rollback. `act` must not throw. */
  afterCommit(act: () => void): void {
    this.#afterCommit.push(act);
  }

  /** Runs the callback of the transaction. The commit or the rollback follows. */
  async perform<T>(act: (tx: Transaction) => Promise<T>): Promise<T> {
    try {
      return await current.run(this, act, this);
    } finally {
      this.#isOpen = false;
    }
  }

  committed(): void {
    for (const act of this.#afterCommit.splice(0)) act();
  }

  /**
   * Throws if the caller is inside the callback of an open transaction. On a database with one connection, a query
   * outside of that transaction would wait for the transaction, and the transaction for the query.
   */
  static assertNone(): void {
    if (current.getStore()?.isOpen) {
      throw new Error('a query in the callback of a transaction does not use it; pass the transaction to the query');
    }
  }

  /** Throws unless the caller is in the callback of an open transaction. */
  static assertOpen(): void {
    if (!current.getStore()?.isOpen) throw new Error('the transaction has ended; await each query in it');
  }
}

/** Runs functions in database transactions. */
export class Transactions {
  readonly #transact;

  constructor(db: Database) {
    this.#transact = transactionsOf(db);
  }

  /**
   * Calls `act` in a new transaction, or in `joined` if it is given. Commits the new transaction when `act` resolves,
   * and rolls it back when `act` rejects. Never calls `act` a second time.
   *
   * Keep `act` short, and let it wait for queries only: on SQLite every other query waits meanwhile.
   */
  async run<T>(act: (tx: Transaction) => Promise<T>, joined?: Transaction): Promise<T> {
    if (joined) return act(joined);
    Transaction.assertNone();
    let begun: Transaction | undefined;
    const result = await this.#transact((kysely) => {
      begun = new Transaction(kysely);
      return begun.perform(act);
    });
    begun?.committed();
    return result;
  }
}
