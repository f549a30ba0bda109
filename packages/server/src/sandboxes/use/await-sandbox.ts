import type { SandboxId, SandboxStatus } from '@cloche/contract';
import { notFound } from '../../base/app-error.ts';
import { Deadline, orAbort } from '../../base/deadline.ts';
import { type Activity, isPending, isSettled, type SandboxRecord, statusOf } from '../record/sandbox.ts';
import type { SandboxChanges } from '../record/sandbox-changes.ts';
import type { SandboxRepository } from '../record/sandbox-repository.ts';

/** Waits for what becomes of a sandbox, woken by its changes. */
export class AwaitSandbox {
  readonly #sandboxes: SandboxRepository;
  readonly #changes: SandboxChanges;
  readonly #activity: Activity;

  constructor(sandboxes: SandboxRepository, changes: SandboxChanges, activity: Activity) {
    this.#sandboxes = sandboxes;
    this.#changes = changes;
    this.#activity = activity;
  }

  /** The sandbox once it has `wanted`, cannot reach it any more, or `waitMs` has passed. */
  async status(id: SandboxId, wanted: SandboxStatus, waitMs: number, signal: AbortSignal): Promise<SandboxRecord> {
    using limit = new Deadline(waitMs, signal);
    // Awaited here: leaving this function ends the limit.
    return await this.#until(id, (record) => isSettled(statusOf(record, this.#activity), wanted), limit.signal);
  }

  /** The sandbox once it is ready or has ended; still pending when `limit` aborts first. */
  async settled(record: SandboxRecord, limit: AbortSignal): Promise<SandboxRecord> {
    if (!isPending(record)) return record;
    return this.#until(record.id, (now) => !isPending(now), limit);
  }

  async #until(id: SandboxId, over: (record: SandboxRecord) => boolean, limit: AbortSignal): Promise<SandboxRecord> {
    using watch = this.#changes.watch(id);
    for (;;) {
      const changed = watch.next();
      const record = await this.#sandboxes.find(id);
      if (!record) throw notFound('sandbox', id);
      if (over(record) || limit.aborted) return record;
      await orAbort(changed, limit).catch(() => undefined);
    }
  }
}
