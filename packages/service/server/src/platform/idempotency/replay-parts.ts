import { setImmediate } from 'node:timers/promises';
import type { Database } from '../db/database.ts';

/** Size of a part. For each response, one part at a time is in memory. */
export const PART_BYTES = 256 * 1024;
/** Parts deleted by one statement. */
const EXPIRED_AT_ONCE = 100;

/** Stores large responses in parts in the database, where every server finds them. */
export class ReplayParts {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  /** @param hour when the response was made, in hours since the epoch; `removeExpired` deletes parts by their hour */
  async write(name: string, hour: number, content: AsyncIterable<Buffer>): Promise<void> {
    let part = 0;
    for await (const bytes of content) {
      await this.#db.insertInto('replay_parts').values({ name, part, hour, content: bytes }).execute();
      part += 1;
    }
  }

  /**
   * Returns the content, or undefined if it does not exist. Each part is read by a query of its own, so no connection
   * is held in between.
   */
  async open(name: string): Promise<AsyncIterable<Buffer> | undefined> {
    const first = await this.#read(name, 0);
    return first && this.#from(first, name);
  }

  /** Missing parts at the end need no check: the decompression by the reader fails. */
  async *#from(first: Buffer, name: string): AsyncGenerator<Buffer, void> {
    let content: Buffer | undefined = first;
    for (let part = 1; content; part += 1) {
      yield content;
      content = await this.#read(name, part);
    }
  }

  async #read(name: string, part: number): Promise<Buffer | undefined> {
    const query = this.#db.selectFrom('replay_parts').select('content').where('name', '=', name);
    return (await query.where('part', '=', part).executeTakeFirst())?.content;
  }

  /** Deletes what was written before `hour`, in batches. */
  async removeExpired(hour: number): Promise<void> {
    const old = this.#db.selectFrom('replay_parts').select(['name', 'part']).where('hour', '<', hour);
    const some = old.orderBy('name').orderBy('part').limit(EXPIRED_AT_ONCE);
    const slice = this.#db
      .deleteFrom('replay_parts')
      .where(({ eb, refTuple }) => eb(refTuple('name', 'part'), 'in', some.$asTuple('name', 'part')));
    while ((await slice.executeTakeFirst()).numDeletedRows === BigInt(EXPIRED_AT_ONCE)) await setImmediate();
  }
}
