import type { SandboxId } from '@cloche/contract';
import { pause } from '@cloche/node-support';
import { type RawBuilder, sql } from 'kysely';
import type { Logger } from 'pino';
import type { Clock } from '../../platform/base/clock.ts';
import { Loop } from '../../platform/base/loop.ts';
import type { Database } from '../../platform/db/database.ts';
import type { LiveServers } from '../../platform/db/live-servers.ts';
import { sandboxThat } from '../sandbox-status/status-facts.ts';
import type { Executions } from './executions.ts';
import type { RecentActivity, SharedActivity } from './shared-activity.ts';

/** Time for which changes are gathered before they are written. */
const WRITE_MS = 250;
/** How often a sandbox in which something runs is written again. */
const RENEW_MS = 5_000;
const RETRY_MS = 1_000;
/** Most rows that one statement writes. */
const BATCH = 1_000;

export interface ActivityRowsDeps {
  readonly db: Database;
  readonly executions: Executions;
  readonly servers: LiveServers;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Columns of `sandbox_activity`. In rows of servers of earlier releases, everything that runs counts as a use. */
export const IN_USE = sql`coalesce(sandbox_activity.in_use, sandbox_activity.running)`;
export const LAST_USED_AT = sql`coalesce(sandbox_activity.last_used_at, sandbox_activity.last_active_at)`;

interface ActivityOfOthers {
  readonly at: number;
  readonly running: number;
  readonly usedAt: number;
  readonly inUse: number;
}

/** Writes the activity of sandboxes on this server to the database, and reads the activity on other servers. */
export class ActivityRows implements SharedActivity {
  readonly #deps: ActivityRowsDeps;
  readonly #changed = new Set<SandboxId>();
  readonly #stop = new AbortController();
  #writing: Promise<void> | undefined;
  #renewal: Loop | undefined;

  constructor(deps: ActivityRowsDeps) {
    this.#deps = deps;
  }

  async start(): Promise<void> {
    const { db, servers, executions, log } = this.#deps;
    // The work of an earlier process with this id has ended.
    await db
      .updateTable('sandbox_activity')
      .set({ running: 0, in_use: 0 })
      .where('server_id', '=', servers.own)
      .execute();
    const renew = async () => {
      for (const id of executions.active()) this.note(id);
      return RENEW_MS;
    };
    this.#renewal = new Loop('renew activity', renew, RETRY_MS, log);
  }

  /** Writes what is not written yet. Call it when nothing runs through this server any more. */
  async stop(): Promise<void> {
    await this.#renewal?.stop();
    this.#stop.abort();
    await this.#writing;
    await this.#write().catch((error) => this.#deps.log.warn({ err: error }, 'the last activity could not be written'));
  }

  /** Notes that the activity of a sandbox has changed. It is written soon, with that of other sandboxes. */
  note(id: SandboxId): void {
    this.#changed.add(id);
    if (this.#stop.signal.aborted) return;
    this.#writing ??= this.#writeSoon();
  }

  async of(ids: readonly SandboxId[]): Promise<RecentActivity> {
    const { executions } = this.#deps;
    const rows = await this.#read(ids);
    return {
      isRunning: (id) => executions.isRunning(id) || rows.get(id)?.running === 1,
      wasUsed: (id) => executions.wasUsed(id) || rows.get(id)?.running === 1,
      lastActiveAt: (id) => latest(executions.lastActiveAt(id), rows.get(id)?.at),
      isInUse: (id) => executions.isInUse(id) || rows.get(id)?.inUse === 1,
      lastUsedAt: (id) => latest(executions.lastUsedAt(id), rows.get(id)?.usedAt),
    };
  }

  /**
   * Deletes the rows of ended sandboxes. Deletes the rows of dead servers too, after copying their last activity to the
   * sandbox.
   */
  async tidy(): Promise<void> {
    const { db, log } = this.#deps;
    const live = db.selectFrom('sandboxes').select('id').where(sandboxThat('acceptsWork'));
    await db.deleteFrom('sandbox_activity').where('sandbox_id', 'not in', live).execute();
    const dead = await this.#rows()
      .where('server_leases.id', 'is', null)
      .select(['sandbox_activity.sandbox_id', 'sandbox_activity.server_id', 'last_active_at as at'])
      .execute();
    for (const { sandbox_id, server_id, at } of dead) {
      await db
        .updateTable('sandboxes')
        .set({ last_active_at: at })
        .where('id', '=', sandbox_id)
        .where((eb) => eb.or([eb('last_active_at', 'is', null), eb('last_active_at', '<', at)]))
        .execute();
      // The condition on the time keeps the row if its server is alive after all and has written it again.
      await db
        .deleteFrom('sandbox_activity')
        .where('sandbox_id', '=', sandbox_id)
        .where('server_id', '=', server_id)
        .where('last_active_at', '=', at)
        .execute();
    }
    if (dead.length > 0) log.debug({ rows: dead.length }, 'activity of dead servers tidied');
  }

  async #read(ids: readonly SandboxId[]) {
    if (ids.length === 0) return new Map<SandboxId, ActivityOfOthers>();
    const rows = await this.#rows()
      .where('sandbox_activity.sandbox_id', 'in', ids)
      .groupBy('sandbox_activity.sandbox_id')
      .select(({ fn }) => [
        'sandbox_activity.sandbox_id as id',
        fn.max('last_active_at').as('at'),
        sql<number>`max(${LAST_USED_AT})`.as('usedAt'),
        this.#ofOthers(sql.ref('running')).as('running'),
        this.#ofOthers(IN_USE).as('inUse'),
      ])
      .execute();
    return new Map(rows.map(({ id, ...row }) => [id as SandboxId, row as ActivityOfOthers]));
  }

  /**
   * Rows of dead servers do not count, because another server detects the end of their work. The row of this server does
   * not count either, because this server knows its own work exactly.
   */
  #ofOthers(flag: RawBuilder<unknown>) {
    return sql<number>`max(case when server_leases.id is null or server_leases.id = ${this.#deps.servers.own} then 0 else ${flag} end)`;
  }

  /** All rows, each with the lease of its server if that lives. */
  #rows() {
    const { db, clock } = this.#deps;
    return db
      .selectFrom('sandbox_activity')
      .leftJoin('server_leases', (join) =>
        join.onRef('server_leases.id', '=', 'sandbox_activity.server_id').on('lease_until', '>', clock.now()),
      );
  }

  /** Never rejects. */
  async #writeSoon(): Promise<void> {
    let waitMs = WRITE_MS;
    do {
      await pause(waitMs, this.#stop.signal);
      if (this.#stop.signal.aborted) return;
      waitMs = await this.#write().then(
        () => WRITE_MS,
        (error) => {
          this.#deps.log.warn({ err: error }, 'activity could not be written yet');
          return RETRY_MS;
        },
      );
    } while (this.#changed.size > 0);
    this.#writing = undefined;
  }

  async #write(): Promise<void> {
    const { db, executions, servers, clock } = this.#deps;
    while (this.#changed.size > 0) {
      const ids = [...this.#changed].slice(0, BATCH);
      for (const id of ids) this.#changed.delete(id);
      const values = ids.flatMap((id) => {
        const [now, last] = [clock.now(), executions.lastActiveAt(id)];
        if (last === undefined) return [];
        const [isRunning, isInUse] = [executions.isRunning(id), executions.isInUse(id)];
        return [
          {
            ...{ sandbox_id: id, server_id: servers.own, running: isRunning ? 1 : 0, in_use: isInUse ? 1 : 0 },
            last_active_at: isRunning ? now : last,
            last_used_at: isInUse ? now : last,
          },
        ];
      });
      if (values.length === 0) continue;
      try {
        await db
          .insertInto('sandbox_activity')
          .values(values)
          .onConflict((conflict) =>
            conflict.columns(['sandbox_id', 'server_id']).doUpdateSet((eb) => ({
              running: eb.ref('excluded.running'),
              last_active_at: eb.ref('excluded.last_active_at'),
              in_use: eb.ref('excluded.in_use'),
              last_used_at: eb.ref('excluded.last_used_at'),
            })),
          )
          .execute();
      } catch (error) {
        for (const id of ids) this.#changed.add(id);
        throw error;
      }
    }
  }
}

function latest(own: number | undefined, shared: number | undefined): number | undefined {
  return own === undefined || shared === undefined ? (own ?? shared) : Math.max(own, shared);
}
