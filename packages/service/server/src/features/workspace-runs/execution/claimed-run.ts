import type { WorkspaceRunId } from '@cloche/contract';
import type { Clock } from '../../../platform/base/clock.ts';
import { Fence } from '../../../platform/base/fence.ts';
import { type Call, type ServiceWork, serviceCall } from '../../../platform/call/call.ts';
import type { ClaimedRows } from '../../../platform/db/claimed-rows.ts';
import type { Transaction } from '../../../platform/db/transactions.ts';
import type { Credential } from '../../../platform/keys/credential.ts';
import type { RunTransitionName, WorkspaceRunRecord } from '../record/workspace-run.ts';
import type { WorkspaceRunRepository } from '../record/workspace-run-repository.ts';
import type { RunChange } from '../record/workspace-run-row.ts';

/** Means that another server has taken over the run. */
export class ClaimLostError extends Error {
  override readonly name = 'ClaimLostError';

  constructor(id: WorkspaceRunId) {
    super(`another server works on ${id}`);
  }
}

/** A claim to a run. */
export interface RunClaim {
  readonly claim: string;
  /** When the claim was sent to the database, by `performance.now()`. */
  readonly sentAt: number;
  /** Duration of the claim without a renewal. */
  readonly claimMs: number;
}

/**
 * A run that this server has claimed. Changes are made only while the claim holds. `stopped` aborts before another
 * server may adopt the run, even if the database does not answer.
 */
export class ClaimedRun implements Disposable {
  readonly #runs: WorkspaceRunRepository;
  readonly #claim: string;
  readonly #fence: Fence;
  readonly #stopped = new AbortController();
  readonly #canceled = new AbortController();
  /** Aborts when the run is canceled or this server no longer works on it. */
  readonly signal: AbortSignal;
  #record: WorkspaceRunRecord;

  constructor(runs: WorkspaceRunRepository, record: WorkspaceRunRecord, { claim, sentAt, claimMs }: RunClaim) {
    this.#runs = runs;
    this.#record = record;
    this.#claim = claim;
    this.signal = AbortSignal.any([this.#stopped.signal, this.#canceled.signal]);
    if (record.cancelRequestedAt !== undefined) this.cancel();
    this.#fence = new Fence(() => this.stop(), undefined, claimMs);
    this.#fence.renewed(sentAt);
  }

  get record(): WorkspaceRunRecord {
    return this.#record;
  }

  get claim(): string {
    return this.#claim;
  }

  /** Aborts when this server no longer works on the run: it stops, or its claim is lost. */
  get stopped(): AbortSignal {
    return this.#stopped.signal;
  }

  /** Aborts when the run is to be canceled. */
  get canceled(): AbortSignal {
    return this.#canceled.signal;
  }

  /** Credential for the run's project. It stays valid even if the key that created the run is revoked. */
  get credential(): Credential {
    const { orgId, projectId } = this.#record;
    return { apiKeyId: 'key_workspace_run', orgId, scopes: new Set(), projectIds: new Set([projectId]) };
  }

  /** Returns the call of an action for the run. */
  call(work: Omit<ServiceWork, 'credential'>): Call {
    return serviceCall({ ...work, credential: this.credential });
  }

  cancel(): void {
    this.#canceled.abort();
  }

  stop(): void {
    this.#stopped.abort();
  }

  /** Notes that the claim was renewed. @param sentAt when the renewal was sent, by `performance.now()` */
  renewed(sentAt: number): void {
    this.#fence.renewed(sentAt);
  }

  /** Ends the watch over the claim. Call it when the work has ended. */
  [Symbol.dispose](): void {
    this.#fence.stop();
  }

  /** @throws ClaimLostError */
  async advance(change: RunChange): Promise<void> {
    this.#take(await this.#runs.advance(this.#record.id, change, this.#claim));
  }

  /** @throws ClaimLostError */
  async become(transition: RunTransitionName, change: RunChange): Promise<void> {
    this.#take(await this.#runs.transition(this.#record, transition, change, { claim: this.#claim }));
  }

  #take(record: WorkspaceRunRecord | undefined): void {
    if (!record) throw new ClaimLostError(this.#record.id);
    this.#record = record;
  }
}

/**
 * Returns a function that makes a transaction fail with `ClaimLostError` unless the claim still holds. It prevents late
 * writes: a server that has taken the run over may have ended it, and would not look for what is written afterwards.
 */
export function claimGuard(
  { record, claim }: Pick<ClaimedRun, 'record' | 'claim'>,
  { claims, clock }: { readonly claims: ClaimedRows; readonly clock: Clock },
): (tx: Transaction) => Promise<void> {
  return async (tx) => {
    if (!(await claims.renew(record.id, claim, clock.now(), tx))) throw new ClaimLostError(record.id);
  };
}
