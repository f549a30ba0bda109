import type { WorkspaceRunId } from '@cloche/contract';
import type { Credential } from '../../api-keys/credential.ts';
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

/** A run that this server has claimed. Changes are made only while the claim holds. */
export class ClaimedRun {
  readonly #runs: WorkspaceRunRepository;
  readonly #claim: string;
  readonly #stopped = new AbortController();
  readonly #canceled = new AbortController();
  /** Aborts when the run is canceled or this server no longer works on it. */
  readonly signal: AbortSignal;
  #record: WorkspaceRunRecord;

  constructor(runs: WorkspaceRunRepository, record: WorkspaceRunRecord, claim: string) {
    this.#runs = runs;
    this.#record = record;
    this.#claim = claim;
    this.signal = AbortSignal.any([this.#stopped.signal, this.#canceled.signal]);
    if (record.cancelRequestedAt !== undefined) this.cancel();
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

  cancel(): void {
    this.#canceled.abort();
  }

  stop(): void {
    this.#stopped.abort();
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
