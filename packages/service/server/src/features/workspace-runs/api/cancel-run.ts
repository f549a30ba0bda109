import type { WorkspaceRunId } from '@cloche/contract';
import type { Clock } from '../../../platform/base/clock.ts';
import type { Audited } from '../../../platform/call/call.ts';
import { isFinished, type WorkspaceRunRecord } from '../record/workspace-run.ts';
import type { WorkspaceRunRepository } from '../record/workspace-run-repository.ts';

/** Cancels workspace runs. */
export class CancelRun {
  readonly #runs: WorkspaceRunRepository;
  readonly #clock: Clock;
  readonly #cancelHere: (id: WorkspaceRunId) => void;

  /** @param cancelHere cancels a run at once if this server works on it */
  constructor(runs: WorkspaceRunRepository, clock: Clock, cancelHere: (id: WorkspaceRunId) => void) {
    this.#runs = runs;
    this.#clock = clock;
    this.#cancelHere = cancelHere;
  }

  /**
   * Ends a run that no server works on, and requests the end of any other. Idempotent. Returns the run as it is then.
   */
  async cancel(call: Audited, found: WorkspaceRunRecord): Promise<WorkspaceRunRecord> {
    for (let run = found; ; run = (await this.#runs.find(run.id)) ?? run) {
      if (isFinished(run) || run.cancelRequestedAt !== undefined) return run;
      const now = this.#clock.now();
      const ended = { cancelRequestedAt: now, finishedAt: now, outcome: { status: 'canceled' } } as const;
      const changed =
        run.step === undefined
          ? await this.#runs.transition(run, 'cancel', ended, { call })
          : await this.#runs.requestCancel(call, run.id, now);
      if (!changed) continue;
      if (!isFinished(changed)) this.#cancelHere(changed.id);
      return changed;
    }
  }
}
