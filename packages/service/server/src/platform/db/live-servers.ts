import type { Clock } from '../base/clock.ts';
import type { Database } from './database.ts';

/** Finds out which servers of the database are alive: those whose lease is valid by the clock of the database. */
export class LiveServers {
  readonly #db: Database;
  readonly #clock: Clock;
  /** Id of this server. */
  readonly own: string;

  constructor(db: Database, own: string, clock: Clock) {
    this.#db = db;
    this.own = own;
    this.#clock = clock;
  }

  /**
   * Returns the ids of the other servers that are alive. A server that died after it wrote a row is missing, so read
   * the rows first.
   */
  async others(): Promise<ReadonlySet<string>> {
    const rows = await this.#db
      .selectFrom('server_leases')
      .select('id')
      .where('id', '!=', this.own)
      .where('lease_until', '>', this.#clock.now())
      .execute();
    return new Set(rows.map(({ id }) => id));
  }

  /** Returns whether every other server that is alive knows the migration. */
  async allKnow(migration: string): Promise<boolean> {
    const older = await this.#db
      .selectFrom('server_leases')
      .select('id')
      .where('id', '!=', this.own)
      .where('lease_until', '>', this.#clock.now())
      .where((where) => where.or([where('schema_version', 'is', null), where('schema_version', '<', migration)]))
      .executeTakeFirst();
    return older === undefined;
  }
}
