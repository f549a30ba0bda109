import type { Clock } from '../base/clock.ts';
import type { Database } from '../db/database.ts';
import type { Transaction } from '../db/transactions.ts';

/** Time within which a removal is sent after it was decided. */
const SEND_MS = 60_000;

/** The right to send one removal. */
export interface ContentRemoval {
  readonly sha256: string;
  /** When it is over. */
  readonly until: number;
  /** Whether it is too late to send the request. */
  isTooLate(): boolean;
}

/**
 * Remembers which contents are being removed from the store, because a request to a bucket may arrive after its server has
 * ended or has given it up. Nothing uses a content meanwhile.
 */
export class ContentRemovals {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #arrivesWithinMs: number;

  /** @param arrivesWithinMs time after which a request that got no answer does not arrive any more */
  constructor(db: Database, clock: Clock, arrivesWithinMs: number) {
    this.#db = db;
    this.#clock = clock;
    this.#arrivesWithinMs = arrivesWithinMs;
  }

  /** Returns undefined if another removal of the content is under way. The removal begins with the commit of `tx`. */
  async begin(sha256: string, tx: Transaction | undefined): Promise<ContentRemoval | undefined> {
    const now = this.#clock.now();
    const sentUntil = now + SEND_MS;
    const until = sentUntil + this.#arrivesWithinMs;
    const begun = await (tx?.db ?? this.#db)
      .insertInto('content_removals')
      .values({ sha256, until })
      .onConflict((conflict) =>
        conflict.column('sha256').doUpdateSet({ until }).where('content_removals.until', '<=', now),
      )
      .returning('until')
      .executeTakeFirst();
    return begun && { sha256, until, isTooLate: () => this.#clock.now() >= sentUntil };
  }

  /** Ends a removal that was answered, or not sent. */
  async end({ sha256, until }: ContentRemoval): Promise<void> {
    await this.#db.deleteFrom('content_removals').where('sha256', '=', sha256).where('until', '=', until).execute();
  }

  /** Returns whether a removal of the content may still arrive. */
  async isUnderWay(sha256: string, tx?: Transaction): Promise<boolean> {
    const query = (tx?.db ?? this.#db).selectFrom('content_removals').select('sha256').where('sha256', '=', sha256);
    return (await query.where('until', '>', this.#clock.now()).executeTakeFirst()) !== undefined;
  }

  /** Forgets the removals that are over without an answer. */
  async forget(): Promise<void> {
    await this.#db.deleteFrom('content_removals').where('until', '<=', this.#clock.now()).execute();
  }
}
