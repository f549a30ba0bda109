/** The statements that insert sandboxes and change their status. */
import { type RawBuilder, type Selectable, sql } from 'kysely';
import type { Database } from '../../platform/db/database.ts';
import { laterThanAll } from '../../platform/db/later-than-all.ts';
import { type PreparedQuery, prepareQuery } from '../../platform/db/prepared-query.ts';
import { locksRows } from '../../platform/db/row-locks.ts';
import type { SandboxTable } from '../../platform/db/tables/sandbox-tables.ts';
import type { RecordStatus } from '../sandbox-status/status-facts.ts';
import { IN_USE, LAST_USED_AT } from './activity-rows.ts';
import { type TransitionName, transitionOf } from './sandbox.ts';
import { type MoveName, moveOf } from './sandbox-pauses.ts';
import type { NewSandboxRow } from './sandbox-row.ts';

export type Values = Record<string, string | number | null>;
type PreparedChange = PreparedQuery<Values, Selectable<SandboxTable>>;
export type PreparedInsert = PreparedQuery<Values, Pick<Selectable<SandboxTable>, 'created_at'>>;

/**
 * Checks the project and inserts in one statement. Where rows can be locked, the lock makes the insert wait for a
 * concurrent deletion of the project or a change of its limits, and these for the insert.
 */
export function prepareInsert(
  db: Database,
  columns: readonly (keyof NewSandboxRow)[],
  projects: 'any' | 'unlimited',
): PreparedInsert {
  return prepareQuery(db, (slots: Values) => {
    const createdAt = laterThanAll({ table: 'sandboxes', list: 'org_id' }, slots.org_id, slots.created_at);
    const values = columns.map((column) =>
      column === 'created_at' ? createdAt.as(column) : sql`${slots[column]}`.as(column),
    );
    const planned = db
      .selectFrom('projects')
      .select(values)
      .where('projects.id', '=', slots.project_id as string)
      .where('projects.deleted_at', 'is', null)
      .$if(projects === 'unlimited', (query) => query.where('projects.limited', '=', 0))
      .$if(locksRows(db), (query) => query.forKeyShare());
    return db
      .insertInto('sandboxes')
      .columns(columns)
      .expression(planned)
      .onConflict((conflict) => conflict.doNothing())
      .returning('created_at');
  });
}

/** Prepares the statements that change the state of a sandbox once, by what they set and compare. */
export class PreparedChanges {
  readonly #db: Database;
  readonly #prepared = new Map<string, PreparedChange>();

  constructor(db: Database) {
    this.#db = db;
  }

  transition(transition: TransitionName, columns: readonly string[], ifIdle: boolean): PreparedChange {
    return this.#once([transition, ifIdle, ...columns].join(' '), () =>
      prepareTransition(this.#db, transition, columns, ifIdle),
    );
  }

  move(move: MoveName, columns: readonly string[], due?: 'expiry' | 'idle'): PreparedChange {
    return this.#once([move, due, ...columns].join(' '), () => prepareMove(this.#db, move, columns, due));
  }

  #once(name: string, prepare: () => PreparedChange): PreparedChange {
    const known = this.#prepared.get(name);
    if (known) return known;
    const prepared = prepare();
    this.#prepared.set(name, prepared);
    return prepared;
  }
}

function prepareTransition(
  db: Database,
  transition: TransitionName,
  columns: readonly string[],
  ifIdle: boolean,
): PreparedChange {
  return prepareQuery(db, (slots: Values) => {
    const changes = Object.fromEntries(columns.map((column) => [column, slots[column]]));
    const query = db
      .updateTable('sandboxes')
      .set({ status: transitionOf(transition).to, ...changes })
      .where('id', '=', slots.seenId as string)
      .where('generation', '=', slots.seenGeneration as number)
      .where('status', '=', slots.seenStatus as RecordStatus)
      .where('pause_epoch', '=', slots.seenEpoch as number)
      .$if(ifIdle, (update) => update.where(stillIdle(slots, IDLE)))
      .returningAll();
    return transition === 'end' ? query.where('expires_at', '=', slots.seenExpiresAt as number) : query;
  });
}

function prepareMove(
  db: Database,
  move: MoveName,
  columns: readonly string[],
  due?: 'expiry' | 'idle',
): PreparedChange {
  const { to } = moveOf(move);
  const state = to === undefined ? {} : { pause_state: to === 'ready' ? null : to };
  return prepareQuery(db, (slots: Values) =>
    db
      .updateTable('sandboxes')
      .set(({ eb }) => ({
        ...state,
        pause_epoch: eb('pause_epoch', '+', 1),
        ...Object.fromEntries(columns.map((column) => [column, slots[column]])),
      }))
      .where('id', '=', slots.seenId as string)
      .where('generation', '=', slots.seenGeneration as number)
      .where('status', '=', 'ready')
      .where('pause_epoch', '=', slots.seenEpoch as number)
      .$if(due !== undefined, (update) => update.where('expires_at', '=', slots.seenExpiresAt as number))
      .$if(due === 'idle', (update) => update.where(stillIdle(slots, UNUSED)))
      .returningAll(),
  );
}

/** The columns by which a sandbox is found to be idle. */
interface Idleness {
  /** When it was last active by its own row. */
  readonly activeAt: RawBuilder<unknown>;
  readonly limitMs: RawBuilder<unknown>;
  /** When it was last active through one server, and whether it is. */
  readonly serverAt: RawBuilder<unknown>;
  readonly isActive: RawBuilder<unknown>;
}

/** For the end of a sandbox: all that runs in it is activity. */
const IDLE: Idleness = {
  activeAt: sql`coalesce(sandboxes.last_active_at, sandboxes.created_at)`,
  limitMs: sql`sandboxes.idle_timeout_ms`,
  serverAt: sql`sandbox_activity.last_active_at`,
  isActive: sql`sandbox_activity.running`,
};

/** For a pause: a process that no request waits for is no use of the sandbox. */
const UNUSED: Idleness = {
  activeAt: sql`coalesce(sandboxes.last_active_at, sandboxes.ready_at, sandboxes.created_at)`,
  limitMs: sql`sandboxes.pause_after_idle_ms`,
  serverAt: LAST_USED_AT,
  isActive: IN_USE,
};

/**
 * Returns the condition of an update of `sandboxes` that no other server has used the sandbox since it was found to be
 * idle at `now`. The server `own` may have stood still since then.
 */
function stillIdle({ now, own }: Values, { activeAt, limitMs, serverAt, isActive }: Idleness) {
  return sql<boolean>`
    ${activeAt} + ${limitMs} <= ${now} and not exists (
      select 1 from sandbox_activity
      left join server_leases on server_leases.id = sandbox_activity.server_id and server_leases.lease_until > ${now}
      where sandbox_activity.sandbox_id = sandboxes.id and (
        ${serverAt} + ${limitMs} > ${now}
        or (${isActive} = 1 and server_leases.id is not null and sandbox_activity.server_id <> ${own})))`;
}
