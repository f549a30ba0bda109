import { eventually } from '@cloche/testkit/eventually';
import type { TestPostgres } from './postgres.ts';

const LONGER_MS = 3_600_000;
/** As the database counts the time of leases. */
const NOW = 'extract(epoch from clock_timestamp()) * 1000';

/** The lease of a server that does not end with the server, because the database makes each renewal an hour longer. */
export class HeldLease {
  readonly server: string;
  readonly #db: Database;

  private constructor(db: Database, server: string) {
    this.#db = db;
    this.server = server;
  }

  /** @param server id of a server that lives */
  static async hold(db: Database, server: string): Promise<HeldLease> {
    await db.query(`
      create function prolong() returns trigger language plpgsql as
        'begin new.lease_until := new.lease_until + ${LONGER_MS}; return new; end';
      create trigger prolong before update on server_leases for each row when (new.id = '${server}')
        execute function prolong()`);
    const lease = new HeldLease(db, server);
    await eventually(() => lease.#is(`lease_until - ${NOW} > ${LONGER_MS / 2}`));
    return lease;
  }

  /** Returns whether the lease would have ended by now if it were not held. */
  isOverdue(): Promise<boolean> {
    return this.#is(`lease_until - ${LONGER_MS} < ${NOW}`);
  }

  /** Call it after the death of the server. */
  async end(): Promise<void> {
    await this.#db.query('update server_leases set lease_until = 0 where id = $1', [this.server]);
  }

  async #is(condition: string): Promise<boolean> {
    const { rowCount } = await this.#db.query(`select from server_leases where id = $1 and ${condition}`, [
      this.server,
    ]);
    return rowCount === 1;
  }
}

type Database = Awaited<ReturnType<TestPostgres['connect']>>;
