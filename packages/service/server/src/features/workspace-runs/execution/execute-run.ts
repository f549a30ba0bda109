import type { AgentFiles } from '@cloche/runtime/agent-files';
import { AppError } from '../../../platform/base/app-error.ts';
import type { AccessFiles } from '../../files/access-files.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import type { RunArchiveAttempt } from '../archive/unpack-archive.ts';
import type { RunOutcome, RunStep } from '../record/workspace-run.ts';
import type { ClaimedRun } from './claimed-run.ts';
import type { EndRun } from './end-run.ts';
import type { ExportArtifacts } from './export-artifacts.ts';
import type { LaunchSandboxOfRun } from './launch-sandbox-of-run.ts';
import type { RunCommand } from './run-command.ts';
import { failed, findSandbox, lostWith } from './run-sandbox.ts';

/**
 * Unpacks the stored archive of a run into `/workspace` of its sandbox. Repeated by another server, as a later attempt,
 * if this one dies. Throws an `AppError` if the archive cannot be unpacked; after `unavailable` it is tried again.
 */
export interface UnpackArchive {
  unpack(attempt: RunArchiveAttempt, files: AgentFiles, signal: AbortSignal): Promise<unknown>;
}

export interface ExecuteRunDeps {
  readonly launchSandbox: LaunchSandboxOfRun;
  readonly unpackArchive: UnpackArchive;
  readonly runCommand: RunCommand;
  readonly exportArtifacts: ExportArtifacts;
  readonly endRun: EndRun;
  readonly files: AccessFiles;
  readonly sandboxes: SandboxRepository;
}

/** Reason why a run goes back to the queue. */
export type NoRoom = 'full' | 'no_capacity';

/**
 * Executes the steps of a claimed run until it has finished. Each step is stored before its work begins and may be
 * repeated: a server that adopts the run continues with the stored step.
 */
export class ExecuteRun {
  readonly #deps: ExecuteRunDeps;

  constructor(deps: ExecuteRunDeps) {
    this.#deps = deps;
  }

  /**
   * Returns undefined when the run has finished, or why it must go back to the queue. Calls `launched` when the run's
   * sandbox is ready or will not be created. Rejects when this server no longer works on the run, and for faults after
   * which the run can be executed again.
   */
  async execute(run: ClaimedRun, launched: () => void): Promise<NoRoom | undefined> {
    for (let { step } = run.record; step !== undefined; { step } = run.record) {
      if (step !== 'launching') launched();
      const noRoom = await this.#steps[step](run);
      if (noRoom) return noRoom;
      if (step === 'ending') return undefined;
      run.stopped.throwIfAborted();
    }
    return undefined;
  }

  readonly #steps: Record<RunStep, (run: ClaimedRun) => Promise<NoRoom | undefined>> = {
    launching: async (run) => {
      const launch = await this.#deps.launchSandbox.launch(run);
      if (launch.status === 'over') await this.#conclude(run, launch.outcome);
      return launch.status === 'full' || launch.status === 'no_capacity' ? launch.status : undefined;
    },
    unpacking: async (run) => {
      const outcome = run.canceled.aborted ? CANCELED : await this.#unpack(run);
      if (outcome) await this.#conclude(run, outcome);
      else await run.advance({ step: 'commanding' });
      return undefined;
    },
    commanding: async (run) => {
      await this.#conclude(run, await this.#deps.runCommand.run(run));
      return undefined;
    },
    exporting: async (run) => {
      try {
        const artifactIds = await this.#deps.exportArtifacts.export(run);
        await run.advance({ artifactIds, step: 'ending' });
      } catch (error) {
        if (!run.canceled.aborted || run.stopped.aborted) throw error;
        await run.advance({ outcome: { ...run.record.outcome, ...CANCELED }, step: 'ending' });
      }
      return undefined;
    },
    ending: async (run) => {
      await this.#deps.endRun.end(run);
      return undefined;
    },
  };

  /** Unpacks the archive. Returns the outcome of the run if that is impossible. */
  async #unpack(run: ClaimedRun): Promise<RunOutcome | undefined> {
    const sandbox = await findSandbox(this.#deps.sandboxes, run.record);
    try {
      const lost = lostWith(sandbox);
      if (lost || !sandbox) return lost;
      const { credential, signal } = run;
      // Each attempt gets a number of its own, which only the server that holds the claim can get.
      await run.advance({ archiveAttempts: run.record.archiveAttempts + 1 });
      const attempt = { runId: run.record.id, attempt: run.record.archiveAttempts };
      await this.#deps.files.with({ credential, signal }, sandbox.id, (files) =>
        this.#deps.unpackArchive.unpack(attempt, files, signal),
      );
      return undefined;
    } catch (error) {
      run.stopped.throwIfAborted();
      if (run.canceled.aborted) return CANCELED;
      const lost = lostWith(await findSandbox(this.#deps.sandboxes, run.record));
      if (lost) return lost;
      if (!(error instanceof AppError) || error.code === 'unavailable') throw error;
      return failed('archive_not_unpacked', error.message);
    }
  }

  /** Stores the outcome of a run. A canceled run, or one whose sandbox was lost, exports no artifacts. */
  async #conclude(run: ClaimedRun, outcome: RunOutcome): Promise<void> {
    const { settings, sandboxId } = run.record;
    const isOver = outcome.status === 'canceled' || outcome.error?.code === 'sandbox_lost';
    const exports = !isOver && sandboxId !== undefined && settings.artifacts.length > 0;
    await run.advance({ outcome, step: exports ? 'exporting' : 'ending' });
  }
}

const CANCELED = { status: 'canceled' } as const satisfies RunOutcome;
