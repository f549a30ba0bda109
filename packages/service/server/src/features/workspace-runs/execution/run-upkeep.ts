import { setImmediate } from 'node:timers/promises';
import { FINISHED_RUN_STATUSES, LIMITS } from '@cloche/contract';
import type { Clock } from '../../../platform/base/clock.ts';
import type { Database } from '../../../platform/db/database.ts';
import type { SequenceLog } from '../../../platform/sequence-log/sequence-log.ts';
import type { WorkspaceRunRepository } from '../record/workspace-run-repository.ts';
import { toRecord } from '../record/workspace-run-row.ts';

/** Records changed by one pass at most; bounds how long other requests wait for the database. */
const BATCH = 100;

export interface RunUpkeepDeps {
  readonly db: Database;
  readonly runs: WorkspaceRunRepository;
  readonly runLog: SequenceLog;
  readonly clock: Clock;
  /** How long the record of a finished run is kept, at least as long as its events. */
  readonly recordRetentionMs: number;
}

/** Cancels runs that are not started in time, and forgets finished ones with their events. */
export class RunUpkeep {
  readonly #deps: RunUpkeepDeps;

  constructor(deps: RunUpkeepDeps) {
    this.#deps = deps;
  }

  async pass(): Promise<void> {
    const { runLog, clock } = this.#deps;
    await this.#cancelUnstarted();
    await this.#forgetFinished();
    await runLog.forget(clock.now() - LIMITS.workspaceRunEventsKeptMs);
  }

  async #cancelUnstarted(): Promise<void> {
    const { db, runs, clock } = this.#deps;
    const now = clock.now();
    for (;;) {
      const rows = await db
        .selectFrom('workspace_runs')
        .selectAll()
        .where('status', 'in', ['awaiting_archive', 'archived'])
        .where('created_at', '<', now - LIMITS.workspaceRunStartWithinMs)
        .limit(BATCH)
        .execute();
      for (const record of rows.map(toRecord)) {
        await runs.transition(record, 'cancel', { finishedAt: now, outcome: { status: 'canceled' } });
      }
      if (rows.length < BATCH) return;
      await setImmediate();
    }
  }

  async #forgetFinished(): Promise<void> {
    const { db, clock } = this.#deps;
    const keptMs = Math.max(this.#deps.recordRetentionMs, LIMITS.workspaceRunEventsKeptMs);
    const old = db
      .selectFrom('workspace_runs')
      .select('id')
      .where('status', 'in', FINISHED_RUN_STATUSES)
      .where('step', 'is', null)
      .where('finished_at', '<', clock.now() - keptMs)
      .limit(BATCH);
    for (;;) {
      const { numDeletedRows } = await db.deleteFrom('workspace_runs').where('id', 'in', old).executeTakeFirst();
      if (numDeletedRows < BATCH) return;
      await setImmediate();
    }
  }
}
