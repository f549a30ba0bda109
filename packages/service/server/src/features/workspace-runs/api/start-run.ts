import type { RequestAudit } from '../../../platform/audit-log/request-audit.ts';
import { AppError } from '../../../platform/base/app-error.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import type { WorkspaceRunRecord } from '../record/workspace-run.ts';
import type { WorkspaceRunRepository } from '../record/workspace-run-repository.ts';

export interface RunStart {
  readonly idempotencyRecordId: string | undefined;
  /** The audit event of the request. */
  readonly audit?: RequestAudit | undefined;
}

/** Starts workspace runs: puts them into the queue. */
export class StartRun {
  readonly #runs: WorkspaceRunRepository;
  readonly #clock: Clock;

  constructor(runs: WorkspaceRunRepository, clock: Clock) {
    this.#runs = runs;
    this.#clock = clock;
  }

  /** Starts a run once for each idempotency record. @throws AppError `conflict` with the status of the run */
  async start(found: WorkspaceRunRecord, { idempotencyRecordId, audit }: RunStart): Promise<WorkspaceRunRecord> {
    const queued = { queuedAt: this.#clock.now(), startRecordId: idempotencyRecordId };
    for (let run = found; ; run = (await this.#runs.find(run.id)) ?? run) {
      if (idempotencyRecordId !== undefined && run.startRecordId === idempotencyRecordId) return run;
      if (run.status !== 'archived') throw notStartable(run);
      const started = await this.#runs.transition(run, 'queue', queued, { audit });
      if (started) return started;
    }
  }
}

function notStartable({ id, status }: WorkspaceRunRecord): AppError {
  const message =
    status === 'awaiting_archive'
      ? `The workspace run "${id}" has no archive yet; upload one first.`
      : `The workspace run "${id}" is ${status}, so it was started or canceled before; create another one.`;
  return new AppError('conflict', message, { details: { status } });
}
