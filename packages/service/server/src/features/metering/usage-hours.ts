import type { Database } from '../../platform/db/database.ts';
import { type PreparedQuery, prepareQuery } from '../../platform/db/prepared-query.ts';
import type { UsageHourTable } from '../../platform/db/tables/usage-tables.ts';
import type { Transaction } from '../../platform/db/transactions.ts';
import { HOUR_COLUMNS, HourSums, type HourUse, hourOf, type UsageOwner } from './hour-sums.ts';

/** Adds to what projects used in each hour. */
export class UsageHours {
  readonly #add: PreparedQuery<UsageHourTable, unknown>;

  constructor(db: Database) {
    this.#add = prepareAdd(db);
  }

  /** Call it after all other writes about usage in the transaction: transactions lock the rows in this order. */
  async write(tx: Transaction, sums: HourSums): Promise<void> {
    for (const row of sums.rows()) await this.#add(row, tx);
  }

  /** Adds what was used at one time. */
  async add(tx: Transaction, owner: UsageOwner, at: number, use: Partial<HourUse>): Promise<void> {
    const sums = new HourSums();
    sums.add(owner, hourOf(at), use);
    await this.write(tx, sums);
  }
}

function prepareAdd(db: Database): PreparedQuery<UsageHourTable, unknown> {
  return prepareQuery(db, (slots: UsageHourTable) => {
    const sums = Object.fromEntries(HOUR_COLUMNS.map((column) => [column, slots[column]])) as HourUse;
    return db
      .insertInto('usage_hours')
      .values({ org_id: slots.org_id, project_id: slots.project_id, hour: slots.hour, ...sums })
      .onConflict((conflict) =>
        conflict
          .columns(['org_id', 'hour', 'project_id'])
          .doUpdateSet(({ eb, ref }) =>
            Object.fromEntries(
              HOUR_COLUMNS.map((column) => [column, eb(`usage_hours.${column}`, '+', ref(`excluded.${column}`))]),
            ),
          ),
      );
  });
}
