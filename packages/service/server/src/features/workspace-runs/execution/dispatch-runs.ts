import type { OrgId, ProjectId, ResourceEvent, WorkspaceRunId } from '@cloche/contract';
import { BackOff, pause } from '@cloche/node-support';
import type { Logger } from 'pino';
import type { Clock } from '../../../platform/base/clock.ts';
import type { IdSource } from '../../../platform/base/id-source.ts';
import { Loop } from '../../../platform/base/loop.ts';
import type { EventOutbox } from '../../../platform/outbox/event-outbox.ts';
import type { WorkspaceRunRecord } from '../record/workspace-run.ts';
import type { WorkspaceRunRepository } from '../record/workspace-run-repository.ts';
import { ClaimedRun, ClaimLostError } from './claimed-run.ts';
import type { ExecuteRun, NoRoom } from './execute-run.ts';
import type { RunQueue } from './run-queue.ts';

/**
 * Most sandboxes that a server creates for runs at the same time. Further runs stay in the queue, so that their order
 * is decided as late as possible.
 */
const LAUNCHES = 8;
/** Longest time until a change that another server made is noticed. */
const LOOK_AGAIN_MS = 1000;
/** Time between two renewals of the claims. */
const RENEW_MS = 1000;
/** Pauses while no host has room. The end of a sandbox ends a pause. */
const CAPACITY_PAUSES = { firstMs: 250, longestMs: 15_000 };
/** Pauses before a run is executed again after an unexpected error. */
const RETRY_PAUSES = { firstMs: 500, longestMs: 30_000 };

export interface DispatchRunsDeps {
  readonly queue: RunQueue;
  readonly runs: WorkspaceRunRepository;
  readonly executeRun: ExecuteRun;
  readonly outbox: EventOutbox;
  readonly serverId: string;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
}

/**
 * Executes workspace runs. Claims queued runs when it is their turn, and adopts runs whose server has died. Notices
 * changes of this server at once, and those of other servers within a second. Renews its claims in a loop of its own,
 * because claiming may wait for locks. A run whose claim is not renewed in time is stopped by its `ClaimedRun`.
 */
export class DispatchRuns {
  readonly #deps: DispatchRunsDeps;
  readonly #claim: string;
  readonly #stop = new AbortController();
  readonly #executing = new Map<WorkspaceRunId, { readonly run: ClaimedRun; readonly done: Promise<void> }>();
  readonly #launching = new Set<WorkspaceRunId>();
  /**
   * Projects whose quotas had no room. A project is tried again when a sandbox or a run ends, or at the next periodic
   * pass.
   */
  readonly #full = new Map<ProjectId, OrgId>();
  readonly #capacityPauses = new BackOff(CAPACITY_PAUSES);
  #pausedUntil = 0;
  #passes: Loop | undefined;
  #renewals: Loop | undefined;

  constructor(deps: DispatchRunsDeps) {
    this.#deps = deps;
    this.#claim = `${deps.serverId}:${deps.ids.next('clm_')}`;
    deps.outbox.onCommitted((event) => this.#notice(event));
  }

  /** Begins with the runs that an earlier process of this server was executing. */
  async start(): Promise<void> {
    const { queue, serverId, log } = this.#deps;
    await queue.releaseAllOf(serverId);
    this.#passes = new Loop('workspace runs', (woken) => this.#pass(woken), LOOK_AGAIN_MS, log);
    this.#renewals = new Loop('claims of workspace runs', () => this.#renew(), RENEW_MS, log);
  }

  /** Cancels a run at once if this server works on it; another server notices within a second. */
  cancel(id: WorkspaceRunId): void {
    this.#executing.get(id)?.run.cancel();
  }

  /** Stops the work of this server. The commands continue in their sandboxes, and the next server adopts the runs. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#passes?.stop();
    const executing = [...this.#executing.values()];
    for (const { run } of executing) run.stop();
    await Promise.all(executing.map(({ done }) => done));
    await this.#renewals?.stop();
    await this.#deps.queue.release(this.#claim);
  }

  /**
   * Starts a pass when there may be room again: after the end of a run in its organization, or of a sandbox on a host.
   */
  #notice({ type, orgId }: ResourceEvent): void {
    const isSandboxEnd = type === 'sandbox.destroyed' || type === 'sandbox.failed';
    if (isSandboxEnd) this.#pausedUntil = 0;
    if (!isSandboxEnd && !type.startsWith('workspace_run.')) return;
    if (type !== 'workspace_run.queued') {
      for (const [project, organization] of this.#full) if (organization === orgId) this.#full.delete(project);
    }
    this.#passes?.wake();
  }

  async #pass(woken: boolean): Promise<number> {
    const { queue, clock } = this.#deps;
    // Another server may have made room without this one noticing.
    if (!woken) this.#full.clear();
    const sentAt = performance.now();
    for (const record of await queue.adopt(this.#claim, clock.now())) this.#execute(record, sentAt);
    while (this.#launching.size < LAUNCHES && clock.now() >= this.#pausedUntil && !this.#stop.signal.aborted) {
      if (!(await this.#claimNext())) break;
    }
    return LOOK_AGAIN_MS;
  }

  /**
   * Prolongs the claims. Cancels runs whose cancellation was requested, stops work on runs that this server no longer
   * has a claim to, and resumes work that was stopped although the claim still holds.
   */
  async #renew(): Promise<number> {
    const { queue, clock } = this.#deps;
    // The answer lacks runs that are claimed after the statement was executed, so only these may be stopped.
    const earlier = [...this.#executing.values()];
    const sentAt = performance.now();
    const claimed = new Map((await queue.renew(this.#claim, clock.now())).map((record) => [record.id, record]));
    for (const { run } of earlier) {
      const record = claimed.get(run.record.id);
      if (!record) run.stop();
      else if (record.cancelRequestedAt !== undefined) run.cancel();
    }
    for (const record of claimed.values()) this.#execute(record, sentAt);
    return RENEW_MS;
  }

  /** Claims the run whose turn it is and starts to execute it. Returns false if there is none. */
  async #claimNext(): Promise<boolean> {
    const { queue, clock } = this.#deps;
    for (const project of await queue.waiting()) {
      if (this.#full.has(project.projectId)) continue;
      const sentAt = performance.now();
      const record = await queue.claimFirst(project, this.#claim, clock.now());
      if (record === 'full') this.#full.set(project.projectId, project.orgId);
      else if (record) {
        this.#execute(record, sentAt);
        return true;
      }
    }
    return false;
  }

  /**
   * Executes a run that this server has claimed; notes the renewal of the claim if it executes the run already.
   * `sentAt` is when the claim or its renewal was sent.
   */
  #execute(record: WorkspaceRunRecord, sentAt: number): void {
    this.#executing.get(record.id)?.run.renewed(sentAt);
    if (this.#executing.has(record.id) || this.#stop.signal.aborted) return;
    const { runs, queue } = this.#deps;
    if (record.step === 'launching') this.#launching.add(record.id);
    const run = new ClaimedRun(runs, record, { claim: this.#claim, sentAt, claimMs: queue.claimMs });
    const done = this.#attempt(run).finally(() => {
      run[Symbol.dispose]();
      this.#executing.delete(record.id);
      this.#launched(record.id);
    });
    this.#executing.set(record.id, { run, done });
  }

  /**
   * Executes a run until it has finished, goes back to the queue or this server no longer works on it. Never rejects.
   */
  async #attempt(run: ClaimedRun): Promise<void> {
    const { executeRun, log } = this.#deps;
    const { id } = run.record;
    const backOff = new BackOff(RETRY_PAUSES);
    while (!run.stopped.aborted) {
      try {
        const noRoom = await executeRun.execute(run, () => this.#launched(id));
        if (noRoom) await this.#giveBack(run, noRoom);
        return;
      } catch (error) {
        if (run.stopped.aborted || error instanceof ClaimLostError) return;
        log.warn({ err: error, workspaceRunId: id, step: run.record.step }, 'a workspace run will be tried again');
        await pause(backOff.next(), run.stopped);
      }
    }
  }

  async #giveBack({ record }: ClaimedRun, noRoom: NoRoom): Promise<void> {
    if (noRoom === 'full') this.#full.set(record.projectId, record.orgId);
    else this.#pausedUntil = this.#deps.clock.now() + this.#capacityPauses.next();
    await this.#deps.queue.giveBack(record, this.#claim, record.attempt + Number(noRoom === 'no_capacity'));
  }

  /** Makes room for the launch of the next run. */
  #launched(id: WorkspaceRunId): void {
    if (!this.#launching.delete(id)) return;
    this.#passes?.wake();
  }
}
