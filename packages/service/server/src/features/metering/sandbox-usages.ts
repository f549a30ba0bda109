import type { SandboxId } from '@cloche/contract';
import type { InstanceUse } from '@cloche/runtime';
import type { Clock } from '../../platform/base/clock.ts';
import type { Database } from '../../platform/db/database.ts';
import { type PreparedQuery, prepareQuery } from '../../platform/db/prepared-query.ts';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';
import { metersOnlyDisk, type PauseState } from '../sandbox-status/status-facts.ts';
import { HourSums, hourOf } from './hour-sums.ts';
import { type Count, type CountedSandbox, nextCount, type UsageRecord } from './next-count.ts';
import type { Started, StartedWork } from './started-work.ts';
import { UsageHours } from './usage-hours.ts';

/** Most attempts to count the end of a sandbox. One is enough unless other servers count it at the same time. */
const ATTEMPTS = 10;

/** A sandbox at its end. */
export type EndedSandbox = Omit<CountedSandbox, 'id' | 'readyAt'> & {
  readonly id: SandboxId;
  readonly readyAt: number | undefined;
  readonly destroyedAt: number | undefined;
  /** State of its pause when its end began. */
  readonly pauseState: PauseState | undefined;
};

/** A pause, or a wake, which has neither of these. */
export interface CountedMove {
  readonly pausedAt?: number;
  readonly use?: InstanceUse | undefined;
}

export interface SandboxUsagesDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly clock: Clock;
  readonly startedWork: StartedWork;
}

/** Stores what each sandbox used. */
export class SandboxUsages {
  readonly #deps: SandboxUsagesDeps;
  readonly #hours: UsageHours;
  readonly #find: PreparedQuery<{ id: string }, UsageRecord>;
  readonly #write: PreparedQuery<UsageRecord, unknown>;
  readonly #addStarted: PreparedQuery<{ id: string; runs: number; commands: number }, unknown>;

  constructor(deps: SandboxUsagesDeps) {
    const { db } = deps;
    this.#deps = deps;
    this.#hours = new UsageHours(db);
    this.#find = prepareQuery(db, ({ id }: { id: string }) =>
      db.selectFrom('sandbox_usage').selectAll().where('sandbox_id', '=', id),
    );
    this.#write = prepareWrite(db);
    this.#addStarted = prepareQuery(db, (slots: { id: string; runs: number; commands: number }) =>
      db
        .updateTable('sandbox_usage')
        .set(({ eb }) => ({
          runs: eb('runs', '+', slots.runs),
          commands: eb('commands', '+', slots.commands),
          version: eb('version', '+', 1),
        }))
        .where('sandbox_id', '=', slots.id),
    );
  }

  async find(id: SandboxId, tx?: Transaction): Promise<UsageRecord | undefined> {
    return (await this.#find({ id }, tx)).rows[0];
  }

  /**
   * Writes the next count of a sandbox and adds it to `sums`. Returns false, without an effect, if the record has
   * changed since it was read as `seen`.
   */
  async count(
    tx: Transaction,
    { sandbox, seen }: { readonly sandbox: CountedSandbox; readonly seen: UsageRecord | undefined },
    count: Count,
    sums: HourSums,
  ): Promise<boolean> {
    const counted = nextCount(sandbox, seen, count);
    if ((await this.#write(counted.record, tx)).changed === 0n) return false;
    counted.addTo(sums);
    return true;
  }

  /**
   * Counts a sandbox up to its end, in `tx` if it is given. Time after the end does not count. If the instance is
   * stopped after this call, a second call counts what it used until then. A sandbox that never became ready has no
   * usage.
   */
  async end(ended: EndedSandbox, use: InstanceUse | undefined, tx?: Transaction): Promise<void> {
    const at = ended.destroyedAt ?? this.#deps.clock.now();
    await this.#countNow(ended, { at, use, ends: true }, tx);
  }

  /** Counts a sandbox up to a pause or a wake, in `tx`. Its state is the one before. */
  async countUp(sandbox: EndedSandbox, { pausedAt, use }: CountedMove, tx: Transaction): Promise<void> {
    await this.#countNow(sandbox, { at: pausedAt ?? this.#deps.clock.now(), use, ends: false }, tx);
  }

  async #countNow(
    ended: EndedSandbox,
    state: Pick<Count, 'at' | 'use' | 'ends'>,
    tx: Transaction | undefined,
  ): Promise<void> {
    const { transactions, startedWork } = this.#deps;
    const { readyAt } = ended;
    if (readyAt === undefined) return;
    const started = startedWork.take(ended.id);
    const count = { ...state, started, isOnlyDisk: metersOnlyDisk(ended.pauseState) };
    const sandbox = { ...ended, readyAt };
    try {
      await transactions.run(async (own) => {
        const sums = new HourSums();
        for (let attempt = 1; ; attempt += 1) {
          const seen = await this.find(ended.id, own);
          if (await this.count(own, { sandbox, seen }, count, sums)) break;
          // Another server counted the sandbox between the read and the write.
          if (attempt === ATTEMPTS) throw new Error(`the usage of ${ended.id} changed at each of ${ATTEMPTS} attempts`);
        }
        await this.#hours.write(own, sums);
      }, tx);
    } catch (error) {
      startedWork.giveBack(ended.id, started);
      throw error;
    }
  }

  /** Adds runs and commands of a sandbox that has ended. Returns false if the sandbox has no record of its usage. */
  async addStarted(tx: Transaction, id: SandboxId, { owner, runs, commands }: Started): Promise<boolean> {
    const { changed } = await this.#addStarted({ id, runs, commands }, tx);
    if (changed === 0n) return false;
    await this.#hours.add(tx, owner, hourOf(this.#deps.clock.now()), { runs, commands });
    return true;
  }
}

/** Inserts the first record; a later one replaces only the version before it. */
function prepareWrite(db: Database): PreparedQuery<UsageRecord, unknown> {
  return prepareQuery(db, (slots: UsageRecord) => {
    const values = Object.fromEntries(COLUMNS.map((column) => [column, slots[column]])) as Omit<
      UsageRecord,
      'sandbox_id'
    >;
    return db
      .insertInto('sandbox_usage')
      .values({ ...values, sandbox_id: slots.sandbox_id })
      .onConflict((conflict) =>
        conflict
          .column('sandbox_id')
          .doUpdateSet(({ ref }) => Object.fromEntries(COLUMNS.map((column) => [column, ref(`excluded.${column}`)])))
          .where(({ eb, ref }) => eb('sandbox_usage.version', '=', eb(ref('excluded.version'), '-', 1))),
      );
  });
}

const COLUMNS = [
  'version',
  'generation',
  'cpu_counter',
  'egress_counter',
  'ingress_counter',
  'counted_until',
  'ended',
  'cpu_ms',
  'memory_mb_ms',
  'disk_mb_ms',
  'paused_ms',
  'egress_bytes',
  'ingress_bytes',
  'runs',
  'commands',
] as const satisfies readonly (keyof UsageRecord)[];
