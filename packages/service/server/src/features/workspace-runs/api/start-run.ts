import { AppError } from '../../../platform/base/app-error.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import type { Call } from '../../../platform/call/call.ts';
import type { WorkspaceRunRecord } from '../record/workspace-run.ts';
import type { WorkspaceRunRepository } from '../record/workspace-run-repository.ts';

/** Starts workspace runs: puts them into the queue. */
export class StartRun {
  readonly #runs: WorkspaceRunRepository;
  readonly #clock: Clock;

  constructor(runs: WorkspaceRunRepository, clock: Clock) {
    this.#runs = runs;
    this.#clock = clock;
  }

  /** Starts a run once for each idempotency record. @throws AppError `conflict` with the status of the run */
  async start(call: Call, found: WorkspaceRunRecord): Promise<WorkspaceRunRecord> {
    const recordId = call.idempotency?.recordId;
    const queued = { queuedAt: this.#clock.now(), startRecordId: recordId };
    for (let run = found; ; run = (await this.#runs.find(run.id)) ?? run) {
      if (recordId !== undefined && run.startRecordId === recordId) return run;
      if (run.status !== 'archived') throw notStartable(run);
      const started = await this.#runs.transition(run, 'queue', queued, { call });
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
