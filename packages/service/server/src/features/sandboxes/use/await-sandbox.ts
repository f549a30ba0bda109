import type { SandboxId, SandboxStatus } from '@cloche/contract';
import { Deadline, orAbort } from '@cloche/node-support';
import { notFound, unavailable } from '../../../platform/base/app-error.ts';
import type { Changes } from '../../../platform/base/changes.ts';
import { isSettled, type SandboxRecord, statusOf } from '../../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import type { SharedActivity } from '../../sandbox-records/shared-activity.ts';
import { factsOf } from '../../sandbox-status/status-facts.ts';

/** Waits until a sandbox reaches a status. Its changes wake the waits. */
export class AwaitSandbox {
  readonly #sandboxes: SandboxRepository;
  readonly #changes: Changes<SandboxId>;
  readonly #activity: SharedActivity;

  constructor(sandboxes: SandboxRepository, changes: Changes<SandboxId>, activity: SharedActivity) {
    this.#sandboxes = sandboxes;
    this.#changes = changes;
    this.#activity = activity;
  }

  /** Returns the sandbox when it has reached `wanted`, can no longer reach it, or `waitMs` has passed. */
  async status(id: SandboxId, wanted: SandboxStatus, waitMs: number, signal: AbortSignal): Promise<SandboxRecord> {
    using limit = new Deadline(waitMs, signal);
    const isOver = async (record: SandboxRecord) => isSettled(statusOf(record, await this.#activity.of([id])), wanted);
    // `await` is needed: leaving this function disposes `limit`.
    return await this.#until(id, isOver, limit.signal);
  }

  /** Returns the sandbox when it is ready or has ended. Returns it still pending if `limit` aborts first. */
  async settled(record: SandboxRecord, limit: AbortSignal): Promise<SandboxRecord> {
    if (!factsOf(record).isPending) return record;
    return this.#until(record.id, (now) => !factsOf(now).isPending, limit);
  }

  /**
   * Returns the sandbox when it is no longer being launched. Waits until `limit` aborts.
   *
   * @throws AppError `unavailable` if it is still being launched then; the reason of `caller` if that aborted
   */
  async launched(record: SandboxRecord, limit: AbortSignal, caller: AbortSignal): Promise<SandboxRecord> {
    const settled = await this.settled(record, limit);
    if (!factsOf(settled).isPending) return settled;
    caller.throwIfAborted();
    throw unavailable('The sandbox is still being created; try again.');
  }

  /** Returns the sandbox when it has ended, or when `limit` aborts. */
  async ended(record: SandboxRecord, limit: AbortSignal): Promise<SandboxRecord> {
    return this.#until(record.id, (now) => factsOf(now).isEnded, limit);
  }

  /** Resolves when the sandbox is not paused, or when `limit` aborts. Does not wake it. */
  async awake(record: SandboxRecord, limit: AbortSignal): Promise<SandboxRecord> {
    return this.#until(record.id, (now) => !factsOf(now).needsWake, limit);
  }

  async #until(
    id: SandboxId,
    over: (record: SandboxRecord) => boolean | Promise<boolean>,
    limit: AbortSignal,
  ): Promise<SandboxRecord> {
    using watch = this.#changes.watch(id);
    for (;;) {
      const changed = watch.next();
      const record = await this.#sandboxes.find(id);
      if (!record) throw notFound('sandbox', id);
      if ((await over(record)) || limit.aborted) return record;
      await orAbort(changed, limit).catch(() => undefined);
    }
  }
}
