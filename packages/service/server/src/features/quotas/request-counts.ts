import type { Logger } from 'pino';
import type { Clock } from '../../platform/base/clock.ts';
import type { Database } from '../../platform/db/database.ts';
import type { Transactions } from '../../platform/db/transactions.ts';
import { WINDOW_SECONDS, Window } from './request-window.ts';

/** Time between two exchanges of counts with other servers. */
const EXCHANGE_MS = 1_000;

export interface RequestCountsDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly clock: Clock;
  readonly log: Logger;
  /** Different for each start, so that counts of the previous process are not replaced. */
  readonly processId: string;
}

/**
 * Counts requests of limited organizations and projects. Each process counts its own requests and exchanges the counts
 * through the database once a second. So limits also hold across a restart.
 */
export class RequestCounts {
  readonly #deps: RequestCountsDeps;
  readonly #windows = new Map<string, Window>();
  #timer: NodeJS.Timeout | undefined;
  #synchronizing: Promise<void> = Promise.resolve();

  constructor(deps: RequestCountsDeps) {
    this.#deps = deps;
  }

  /** Writes the last counts. Call it when no more requests arrive. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#synchronizing;
    for (const [scope, window] of this.#windows) await this.#write(scope, window);
    clearTimeout(this.#timer);
  }

  /** Returns the counts of a scope. Read them and `add` to them without an `await` in between. */
  open(scope: string, second: number): Window | Promise<Window> {
    return this.#windows.get(scope) ?? this.#openFirst(scope, second);
  }

  async #openFirst(scope: string, second: number): Promise<Window> {
    const others = await this.#readOthers(scope, second - WINDOW_SECONDS);
    const window = this.#windows.get(scope) ?? new Window();
    window.others = others;
    this.#windows.set(scope, window);
    return window;
  }

  add(scope: string, window: Window, second: number): void {
    window.add(second);
    // The window may have been forgotten since it was opened.
    this.#windows.set(scope, window);
    this.#schedule();
  }

  /** Writes this process's counts and reads those of others. Forgets scopes without requests in the last minute. */
  async synchronize(second: number): Promise<void> {
    const before = second - WINDOW_SECONDS;
    for (const [scope, window] of this.#windows) {
      await this.#write(scope, window);
      window.others = await this.#readOthers(scope, before);
      window.forget(before);
      if (window.count(second) === 0) this.#windows.delete(scope);
    }
    await this.#deps.db.deleteFrom('request_counts').where('second', '<', before).execute();
  }

  /** The timer runs only while requests are counted, so that an idle server is not woken. */
  #schedule(): void {
    this.#timer ??= setTimeout(() => {
      this.#synchronizing = this.synchronize(Math.floor(this.#deps.clock.now() / 1000))
        .catch((error) => this.#deps.log.warn({ err: error }, 'request counts could not be exchanged'))
        .finally(() => {
          this.#timer = undefined;
          if (this.#windows.size > 0) this.#schedule();
        });
    }, EXCHANGE_MS).unref();
  }

  async #write(scope: string, window: Window): Promise<void> {
    const seconds = [...window.unwritten];
    if (seconds.length === 0) return;
    window.unwritten.clear();
    const rows = seconds.map((second) => ({
      scope_id: scope,
      second,
      process_id: this.#deps.processId,
      requests: window.ownOf(second),
    }));
    await this.#deps.transactions
      .run(async ({ db }) => {
        for (const row of rows) {
          await db
            .insertInto('request_counts')
            .values(row)
            .onConflict((conflict) =>
              conflict.columns(['scope_id', 'second', 'process_id']).doUpdateSet({ requests: row.requests }),
            )
            .execute();
        }
      })
      .catch((error) => {
        for (const second of seconds) window.unwritten.add(second);
        throw error;
      });
  }

  async #readOthers(scope: string, since: number): Promise<Map<number, number>> {
    const rows = await this.#deps.db
      .selectFrom('request_counts')
      .select(({ fn }) => ['second', fn.sum<number>('requests').as('requests')])
      .where('scope_id', '=', scope)
      .where('second', '>=', since)
      .where('process_id', '<>', this.#deps.processId)
      .groupBy('second')
      .execute();
    return new Map(rows.map(({ second, requests }) => [Number(second), Number(requests)]));
  }
}
