import type { Clock } from '../../platform/base/clock.ts';
import type { Database } from '../../platform/db/database.ts';
import type { Transaction } from '../../platform/db/transactions.ts';

/** Permission to send one request that removes a content. */
export interface ContentRemoval {
  readonly sha256: string;
  /** Time after which the request can no longer remove the content. */
  readonly until: number;
}

/**
 * Records in the database which contents are being removed from the store. A request to a bucket may take effect after
 * its server has ended or has stopped waiting for it. No artifact uses a content while its removal is recorded.
 */
export class ContentRemovals {
  readonly #db: Database;
  readonly #clock: Clock;

  constructor(db: Database, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  /**
   * Returns undefined if another removal of the content is under way. The removal begins with the commit of `tx`.
   *
   * @param arrivesWithinMs time after which the prepared request can no longer take effect
   */
  async begin(
    sha256: string,
    arrivesWithinMs: number,
    tx: Transaction | undefined,
  ): Promise<ContentRemoval | undefined> {
    const now = this.#clock.now();
    const until = now + arrivesWithinMs;
    const begun = await (tx?.db ?? this.#db)
      .insertInto('content_removals')
      .values({ sha256, until })
      .onConflict((conflict) =>
        conflict.column('sha256').doUpdateSet({ until }).where('content_removals.until', '<=', now),
      )
      .returning('until')
      .executeTakeFirst();
    return begun && { sha256, until };
  }

  /** Deletes the record of a removal that was answered, or that was not sent. */
  async end({ sha256, until }: ContentRemoval): Promise<void> {
    await this.#db.deleteFrom('content_removals').where('sha256', '=', sha256).where('until', '=', until).execute();
  }

  /** Returns whether a request that removes the content may still take effect. */
  async isUnderWay(sha256: string, tx?: Transaction): Promise<boolean> {
    const query = (tx?.db ?? this.#db).selectFrom('content_removals').select('sha256').where('sha256', '=', sha256);
    return (await query.where('until', '>', this.#clock.now()).executeTakeFirst()) !== undefined;
  }

  /** Deletes the records of removals that got no answer and can no longer take effect. */
  async forget(): Promise<void> {
    await this.#db.deleteFrom('content_removals').where('until', '<=', this.#clock.now()).execute();
  }
}
