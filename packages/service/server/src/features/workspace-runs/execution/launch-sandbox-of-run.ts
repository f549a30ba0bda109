import type { Logger } from 'pino';
import { AppError } from '../../../platform/base/app-error.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import type { ClaimedRows } from '../../../platform/db/claimed-rows.ts';
import { QuotaRefusal } from '../../quotas/quota-refusal.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../../sandbox-status/status-facts.ts';
import type { CreateSandbox } from '../../sandboxes/lifecycle/create-sandbox.ts';
import type { ReadySandbox, SandboxUse } from '../../sandboxes/use/sandbox-use.ts';
import type { RunOutcome } from '../record/workspace-run.ts';
import { type ClaimedRun, claimGuard } from './claimed-run.ts';
import { failed, findSandbox, lifetimeOf, lostWith, sandboxBody, sandboxRecordId } from './run-sandbox.ts';

/**
 * Number of attempts to get a sandbox ready in time before the run fails. A repeated attempt is safe, because nothing
 * of the run has been executed.
 */
const MOST_ATTEMPTS = 3;

export interface LaunchSandboxOfRunDeps {
  readonly createSandbox: CreateSandbox;
  readonly sandboxes: SandboxRepository;
  readonly sandboxUse: SandboxUse;
  readonly claims: ClaimedRows;
  readonly clock: Clock;
  readonly log: Logger;
}

export type RunLaunch =
  | { readonly status: 'ready' }
  /** A quota has no room for another sandbox. */
  | { readonly status: 'full' }
  /** No host has room for the sandbox, or the host or this server was too busy to make it ready in time. */
  | { readonly status: 'no_capacity' }
  | { readonly status: 'over'; readonly outcome: RunOutcome };

/** Creates the sandbox of a queued run. The run is then `running`. */
export class LaunchSandboxOfRun {
  readonly #deps: LaunchSandboxOfRunDeps;

  constructor(deps: LaunchSandboxOfRunDeps) {
    this.#deps = deps;
  }

  /** Creates one sandbox for each attempt of a run, even if another server has already begun to create it. */
  async launch(run: ClaimedRun): Promise<RunLaunch> {
    const { sandboxUse, sandboxes, clock } = this.#deps;
    if (run.canceled.aborted) return { status: 'over', outcome: { status: 'canceled' } };
    try {
      const sandbox = await this.#create(run);
      if (sandbox === undefined) return { status: 'full' };
      const { id }: ReadySandbox = await sandboxUse.ready(sandbox, { signal: run.signal });
      await run.become('run', { sandboxId: id, startedAt: clock.now(), step: 'unpacking' });
      return { status: 'ready' };
    } catch (error) {
      run.stopped.throwIfAborted();
      if (run.canceled.aborted) return { status: 'over', outcome: { status: 'canceled' } };
      if (!(error instanceof AppError) || error.code === 'unavailable') throw error;
      const sandbox = await findSandbox(sandboxes, run.record);
      const kind = sandbox?.failureKind;
      const isWorthAnother = kind === 'no_capacity' || (kind === 'too_slow' && run.record.attempt < MOST_ATTEMPTS);
      if (isWorthAnother) return { status: 'no_capacity' };
      if (sandbox && factsOf(sandbox).refusal === 'sandbox_failed')
        return over('sandbox_failed', sandbox.failureReason ?? error.message);
      const lost = sandbox && lostWith(sandbox);
      return lost ? { status: 'over', outcome: lost } : over('sandbox_failed', error.message);
    }
  }

  async #create(run: ClaimedRun) {
    const { record, signal } = run;
    const { createSandbox, clock, log } = this.#deps;
    const call = run.call({ signal, recordId: sandboxRecordId(record), receivedAt: clock.now(), log });
    try {
      return await createSandbox.create(call, {
        body: sandboxBody(record),
        lifetimeMs: lifetimeOf(record),
        waitsForRoom: true,
        expectsImmediateLoad: true,
        guard: claimGuard(run, this.#deps),
      });
    } catch (error) {
      // If a quota is unused and still has no room, the run can never start, so it fails.
      if (error instanceof QuotaRefusal && error.use.used > 0) return undefined;
      throw error;
    }
  }
}

function over(code: 'sandbox_failed', message: string): RunLaunch {
  return { status: 'over', outcome: failed(code, message) };
}
