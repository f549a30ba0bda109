import { BackOff } from '@cloche/node-support';
import type { Logger } from 'pino';
import type { Clock } from '../../../platform/base/clock.ts';
import { UNAUDITED } from '../../../platform/call/call.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../../sandbox-status/status-facts.ts';
import type { DestroySandbox } from '../../sandboxes/lifecycle/destroy-sandbox.ts';
import { isFinished, type RunOutcome, type RunTransitionName } from '../record/workspace-run.ts';
import type { ClaimedRun } from './claimed-run.ts';
import { findSandbox } from './run-sandbox.ts';

/** Pauses between attempts to destroy a sandbox whose host does not answer. */
const PAUSES = { firstMs: 500, longestMs: 30_000 };

const TRANSITIONS = {
  succeeded: 'succeed',
  failed: 'fail',
  timed_out: 'timeOut',
  canceled: 'cancel',
} as const satisfies Record<RunOutcome['status'], RunTransitionName>;

export interface EndRunDeps {
  readonly destroySandbox: DestroySandbox;
  readonly sandboxes: SandboxRepository;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Destroys the sandbox of a run with a known outcome, and sets the final status of the run. */
export class EndRun {
  readonly #deps: EndRunDeps;

  constructor(deps: EndRunDeps) {
    this.#deps = deps;
  }

  /**
   * Resolves when the sandbox is gone. If the host does not answer, the run gets its final status earlier. Rejects when
   * this server no longer works on the run.
   */
  async end(run: ClaimedRun): Promise<void> {
    const backOff = new BackOff(PAUSES);
    while (!(await this.#destroy(run))) {
      await this.#finish(run, {});
      await backOff.pause(run.stopped);
      run.stopped.throwIfAborted();
    }
    await this.#finish(run, { step: null });
  }

  async #destroy({ record }: ClaimedRun): Promise<boolean> {
    const { destroySandbox, sandboxes, log } = this.#deps;
    try {
      const sandbox = await findSandbox(sandboxes, record);
      if (sandbox && !factsOf(sandbox).isEnded) await destroySandbox.destroy(UNAUDITED, sandbox.id, 'platform_cleanup');
      return true;
    } catch (error) {
      log.warn({ err: error, workspaceRunId: record.id }, 'the sandbox of a run could not be destroyed yet');
      return false;
    }
  }

  async #finish(run: ClaimedRun, change: { readonly step?: null }): Promise<void> {
    const { outcome = { status: 'failed' } } = run.record;
    if (!isFinished(run.record)) {
      await run.become(TRANSITIONS[outcome.status], { ...change, finishedAt: this.#deps.clock.now() });
    } else if ('step' in change) await run.advance(change);
  }
}
