import { BackOff } from '@cloche/node-support';
import { sql } from 'kysely';
import type { Clock } from '../base/clock.ts';
import type { Database } from '../db/database.ts';
import type { Notifications } from '../db/notifications.ts';
import type { OtherKeyCaches } from './authenticator.ts';

/**
 * Time for which a server may use its cache after it has renewed its row. A revocation waits at most this long for a
 * server that has stopped responding.
 */
const VALID_MS = 10_000;
/** Remaining time at which a server renews its row. */
const RENEW_MS = 6_000;
/** Largest difference between the clocks of two servers. */
const CLOCKS_MS = 1_000;
const PAUSES: ConstructorParameters<typeof BackOff>[0] = { firstMs: 5, longestMs: 200 };
/** Id of the only row that holds the epoch. */
const ROW = 1;
/** Time after which the row of a server that has ended is removed. */
const FORGOTTEN_MS = 86_400_000;

export interface KeyCachesDeps {
  readonly db: Database;
  readonly clock: Clock;
  readonly notifications: Notifications;
  /** Unique for each process. */
  readonly processId: string;
}

/**
 * Lets servers cache keys although another server may revoke them. Each change of keys increments a number, the epoch.
 * Every server stores the epoch that its cache reflects, and the time until which it uses the cache. A revocation is
 * complete when every server has stored the new epoch or the time of its cache is over.
 */
export class KeyCaches implements OtherKeyCaches {
  readonly #deps: KeyCachesDeps;
  readonly #onOutdated: () => void;
  #epoch: number | undefined;
  #validUntil = 0;
  #isStopped = false;
  #looking: Promise<void> = Promise.resolve();

  /** @param onOutdated clears the cache of this server */
  constructor(deps: KeyCachesDeps, onOutdated: () => void) {
    this.#deps = deps;
    this.#onOutdated = onOutdated;
    const look = () => {
      // After a failure the cache is used until the next call corrects it, or until its time is over.
      this.look().catch(() => undefined);
    };
    deps.notifications.subscribe('api_keys', { heard: look, missed: look });
  }

  get usableUntil(): number {
    return Math.max(0, this.#validUntil - CLOCKS_MS);
  }

  /** Clears the cache if keys have changed, and renews the row of this server. Call it several times a second. */
  look(): Promise<void> {
    this.#looking = this.#looking.catch(() => undefined).then(() => this.#look());
    return this.#looking;
  }

  async outdate(signal?: AbortSignal): Promise<void> {
    const { db, notifications } = this.#deps;
    const next = sql<number>`key_epochs.epoch + 1`;
    const { epoch } = await db
      .insertInto('key_epochs')
      .values({ id: ROW, epoch: 1 })
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ epoch: next }))
      .returning('epoch')
      .executeTakeFirstOrThrow();
    notifications.send('api_keys', String(epoch));
    const pauses = new BackOff(PAUSES);
    while (!signal?.aborted && (await this.#isUsedBefore(epoch))) await pauses.pause(signal ?? NEVER);
  }

  /** Stops using the cache, so that revocations on other servers do not wait for this one. */
  async stop(): Promise<void> {
    const { db, processId } = this.#deps;
    this.#isStopped = true;
    await this.#looking.catch(() => undefined);
    this.#validUntil = 0;
    this.#onOutdated();
    await db.deleteFrom('key_caches').where('server_id', '=', processId).execute();
  }

  async #look(): Promise<void> {
    if (this.#isStopped) return;
    const { db, clock, processId } = this.#deps;
    const row = await db.selectFrom('key_epochs').select('epoch').where('id', '=', ROW).executeTakeFirst();
    const epoch = row?.epoch ?? 0;
    const now = clock.now();
    if (epoch === this.#epoch && this.#validUntil - now > RENEW_MS) return;
    if (epoch !== this.#epoch) this.#onOutdated();
    const said = { epoch, valid_until: now + VALID_MS };
    await db
      .insertInto('key_caches')
      .values({ server_id: processId, ...said })
      .onConflict((conflict) => conflict.column('server_id').doUpdateSet(said))
      .execute();
    await db
      .deleteFrom('key_caches')
      .where('valid_until', '<', now - FORGOTTEN_MS)
      .execute();
    this.#epoch = epoch;
    this.#validUntil = said.valid_until;
  }

  /** Returns whether another server may still use keys that it cached before `epoch`. */
  async #isUsedBefore(epoch: number): Promise<boolean> {
    const { db, clock, processId } = this.#deps;
    const row = await db
      .selectFrom('key_caches')
      .select('server_id')
      .where('server_id', '!=', processId)
      .where('epoch', '<', epoch)
      .where('valid_until', '>', clock.now())
      .limit(1)
      .executeTakeFirst();
    return row !== undefined;
  }
}

const NEVER = new AbortController().signal;
