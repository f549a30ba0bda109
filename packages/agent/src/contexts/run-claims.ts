import type { RunOperation } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';

/** Records whose claims are remembered. A server that was cut off for long may come back with one of its runs. */
const REMEMBERED = 1000;

/** A run of an earlier claim, which a later one ends. */
export interface ClaimedRun {
  abandon(): void;
}

/**
 * The last fence between two servers that execute the same request, because one of them was cut off and does not know it: of
 * the runs of one idempotency record, that with the highest claim is executed.
 */
export class RunClaims {
  readonly #latest = new Map<string, { readonly claim: number; readonly run: ClaimedRun }>();

  /** Ends the run of a lower claim. Throws `conflict` if a higher claim is known. */
  enter(operation: RunOperation | undefined, run: ClaimedRun): void {
    if (!operation) return;
    this.require(operation);
    const { recordId, claim } = operation;
    const earlier = this.#latest.get(recordId);
    this.#latest.delete(recordId);
    this.#latest.set(recordId, { claim, run });
    if (earlier && earlier.claim < claim) earlier.run.abandon();
    for (const oldest of this.#latest.keys()) {
      if (this.#latest.size <= REMEMBERED) break;
      this.#latest.delete(oldest);
    }
  }

  /** Throws `conflict` if a higher claim is known. */
  require(operation: RunOperation | undefined): void {
    if (!operation) return;
    const { claim = 0 } = this.#latest.get(operation.recordId) ?? {};
    if (claim > operation.claim) throw new AgentError('conflict', 'The request is executed by a later claim.');
  }
}
