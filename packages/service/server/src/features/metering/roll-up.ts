import { setImmediate } from 'node:timers/promises';
import type { OrgId, ProjectId, SandboxId } from '@cloche/contract';
import type { InstanceUse, Metering } from '@cloche/runtime';
import type { Logger } from 'pino';
import type { Clock } from '../../platform/base/clock.ts';
import type { Database } from '../../platform/db/database.ts';
import type { Transactions } from '../../platform/db/transactions.ts';
import { metersOnlyDisk, type PauseState, sandboxThat } from '../sandbox-status/status-facts.ts';
import { HourSums } from './hour-sums.ts';
import type { CountedSandbox, UsageRecord } from './next-count.ts';
import type { SandboxUsages } from './sandbox-usages.ts';
import type { StartedWork } from './started-work.ts';
import { UsageHours } from './usage-hours.ts';

/** Time between two roll-ups. If a server is killed, the counts in its memory since the last roll-up are lost. */
export const ROLL_UP_MS = 10_000;
/** Sandboxes read by one query and written in one transaction, which take a few milliseconds. */
const BATCH = 100;

export interface RollUpDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly usages: SandboxUsages;
  readonly startedWork: StartedWork;
  readonly metering: Pick<Metering, 'uses'>;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Live {
  readonly sandbox: CountedSandbox & {
    readonly id: SandboxId;
    readonly generation: number;
    readonly isOnlyDisk: boolean;
  };
  readonly seen: UsageRecord | undefined;
}

/**
 * Counts the usage of live sandboxes since the last count. Several servers may count at the same time: if two count the
 * same sandbox, only one of them takes effect.
 */
export class RollUp {
  readonly #deps: RollUpDeps;
  readonly #hours: UsageHours;

  constructor(deps: RollUpDeps) {
    this.#deps = deps;
    this.#hours = new UsageHours(deps.db);
  }

  /**
   * Counts every live sandbox. If the runtime does not answer, only time is counted now, and counters at a later pass.
   */
  async pass(): Promise<void> {
    await this.#count(() => this.#uses());
  }

  /** Writes the counts that are only in memory, without a request to the runtime. */
  async flush(): Promise<void> {
    if (this.#deps.startedWork.sandboxes().length > 0) await this.#count(async () => []);
  }

  async #count(readUses: () => Promise<readonly InstanceUse[]>): Promise<void> {
    const live: Live[] = [];
    for (const ids of batchesOf(await this.#liveIds())) {
      live.push(...(await this.#read(ids)));
      await setImmediate();
    }
    // Counters are read after the records: a counter older than its record would seem to have started again.
    const uses = new Map((await readUses()).map((use) => [`${use.sandboxId} ${use.generation}`, use]));
    const now = this.#deps.clock.now();
    for (const batch of batchesOf(live)) {
      await this.#write(batch, uses, now);
      await setImmediate();
    }
    await this.#writeRest(new Set(live.map(({ sandbox }) => sandbox.id)));
  }

  async #uses(): Promise<readonly InstanceUse[]> {
    try {
      return await this.#deps.metering.uses();
    } catch (error) {
      this.#deps.log.warn({ err: error }, 'the runtime does not say what sandboxes use; it will be asked again');
      return [];
    }
  }

  async #liveIds(): Promise<string[]> {
    const query = this.#deps.db.selectFrom('sandboxes').select('id').where(sandboxThat('isMetered'));
    // In one order for all servers, because each transaction locks the records of a batch.
    return (await query.where('ready_at', 'is not', null).execute()).map(({ id }) => id).sort();
  }

  async #read(ids: readonly string[]): Promise<Live[]> {
    const { db } = this.#deps;
    // Read before the sandboxes: a pause in between has changed the record, so that this count has no effect.
    const records = await db.selectFrom('sandbox_usage').selectAll().where('sandbox_id', 'in', ids).execute();
    const sandboxes = await db
      .selectFrom('sandboxes')
      .select(['id', 'org_id', 'project_id', 'generation', 'ready_at', 'resources', 'pause_state'])
      .where('id', 'in', ids)
      .orderBy('id')
      .execute();
    const seen = new Map(records.map((record) => [record.sandbox_id, record]));
    return sandboxes.flatMap(({ ready_at: readyAt, ...row }) => {
      const record = seen.get(row.id);
      if (readyAt === null || record?.ended === 1) return [];
      const sandbox = {
        // The casts are sound because only the repository of sandboxes writes these columns.
        id: row.id as SandboxId,
        orgId: row.org_id as OrgId,
        projectId: row.project_id as ProjectId,
        generation: row.generation,
        readyAt,
        isOnlyDisk: metersOnlyDisk((row.pause_state as PauseState | null) ?? undefined),
        resources: JSON.parse(row.resources),
      };
      return [{ sandbox, seen: record }];
    });
  }

  async #write(batch: readonly Live[], uses: ReadonlyMap<string, InstanceUse>, now: number): Promise<void> {
    const { transactions, usages, startedWork } = this.#deps;
    const taken = new Map(batch.map(({ sandbox }) => [sandbox.id, startedWork.take(sandbox.id)]));
    try {
      await transactions.run(async (tx) => {
        const sums = new HourSums();
        for (const live of batch) {
          const { id, generation, isOnlyDisk } = live.sandbox;
          const count = {
            at: now,
            use: uses.get(`${id} ${generation}`),
            started: taken.get(id),
            ends: false,
            isOnlyDisk,
          };
          if (await usages.count(tx, live, count, sums)) tx.afterCommit(() => taken.delete(id));
        }
        await this.#hours.write(tx, sums);
      });
    } finally {
      for (const [id, started] of taken) startedWork.giveBack(id, started);
    }
  }

  /** Writes the runs and commands of sandboxes that are not live. */
  async #writeRest(live: ReadonlySet<SandboxId>): Promise<void> {
    const { transactions, usages, startedWork } = this.#deps;
    for (const id of startedWork.sandboxes()) {
      if (live.has(id)) continue;
      const started = startedWork.take(id);
      if (!started) continue;
      try {
        const isWritten = await transactions.run((tx) => usages.addStarted(tx, id, started));
        // It became ready after the look at the live ones; the next pass counts it.
        if (!isWritten && (await this.#exists(id))) startedWork.giveBack(id, started);
      } catch (error) {
        startedWork.giveBack(id, started);
        throw error;
      }
    }
  }

  async #exists(id: SandboxId): Promise<boolean> {
    const query = this.#deps.db.selectFrom('sandboxes').select('id').where('id', '=', id);
    return (await query.executeTakeFirst()) !== undefined;
  }
}

function batchesOf<T>(all: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(all.length / BATCH) }, (_, at) => all.slice(at * BATCH, (at + 1) * BATCH));
}
