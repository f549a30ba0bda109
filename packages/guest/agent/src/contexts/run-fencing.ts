import type { RunOperation } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';

/** The lowest claim of a record. */
const FIRST_CLAIM = 1;
/**
 * Number of idempotency records whose claims are remembered after their runs. A server that was cut off for long may
 * still send a run with an old claim.
 */
const REMEMBERED = 1000;

/** A run that a later claim of the same record ends. */
export interface ClaimedRun {
  /** Undefined for a run without an idempotency record. */
  readonly operation: RunOperation | undefined;
  abandon(): void;
}

/**
 * Decides between two servers that execute the same request because one of them is cut off from the database without
 * knowing it. Of the runs of one idempotency record, only the one with the highest claim is executed.
 */
export class RunFencing {
  readonly #latest = new Map<string, { readonly claim: number; readonly run: ClaimedRun }>();

  /** Ends the run of a lower claim. Throws `conflict` if a higher claim is known. */
  enter(run: ClaimedRun): void {
    const { operation } = run;
    if (!operation) return;
    this.require(operation);
    const { recordId, claim } = operation;
    const earlier = this.#latest.get(recordId);
    this.#latest.delete(recordId);
    this.#latest.set(recordId, { claim, run });
    if (earlier && earlier.claim < claim) earlier.run.abandon();
    if (this.#latest.size <= REMEMBERED) return;
    const [oldest = ''] = this.#latest.keys();
    this.#latest.delete(oldest);
  }

  /** Forgets a run that has ended, if its claim was the first: no lower one can follow, so it has nothing to refuse. */
  leave(run: ClaimedRun): void {
    const { operation } = run;
    if (operation?.claim !== FIRST_CLAIM) return;
    if (this.#latest.get(operation.recordId)?.run === run) this.#latest.delete(operation.recordId);
  }

  /** Throws `conflict` if a higher claim is known. */
  require(operation: RunOperation | undefined): void {
    if (!operation) return;
    const { claim = 0 } = this.#latest.get(operation.recordId) ?? {};
    if (claim > operation.claim) throw new AgentError('conflict', 'The request is executed by a later claim.');
  }
}
