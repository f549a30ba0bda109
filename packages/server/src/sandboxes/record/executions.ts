import type { ContextId, SandboxId } from '@cloche/contract';
import type { Clock } from '../../base/clock.ts';
import type { SandboxChanges } from './sandbox-changes.ts';

/** One execution under way; disposing it is its end. */
export interface Execution extends Disposable {
  /** Undefined for a command. */
  readonly contextId: ContextId | undefined;
  /** Makes it answer now that it was canceled, whatever its agent does. */
  cancel(): void;
}

interface LiveActivity {
  readonly executions: Set<Execution>;
  /** Deleted here: an execution that was decided before and begins after is canceled too. */
  readonly endedContexts: Set<ContextId>;
  lastActiveAt: number;
  used: boolean;
}

/** What runs in each sandbox through this server: makes `running` and `idle`, and lets an end reach every execution. */
export class Executions {
  readonly #clock: Clock;
  readonly #changes: SandboxChanges;
  readonly #sandboxes = new Map<SandboxId, LiveActivity>();

  constructor(clock: Clock, changes: SandboxChanges) {
    this.#clock = clock;
    this.#changes = changes;
  }

  begin(sandboxId: SandboxId, contextId: ContextId | undefined, cancel: () => void): Execution {
    const activity = this.#activityOf(sandboxId);
    const execution: Execution = {
      contextId,
      cancel,
      [Symbol.dispose]: () => {
        if (!activity.executions.delete(execution)) return;
        activity.lastActiveAt = this.#clock.now();
        if (activity.executions.size === 0) this.#changes.notify(sandboxId);
      },
    };
    activity.executions.add(execution);
    activity.used = true;
    activity.lastActiveAt = this.#clock.now();
    if (activity.executions.size === 1) this.#changes.notify(sandboxId);
    if (contextId !== undefined && activity.endedContexts.has(contextId)) cancel();
    return execution;
  }

  /** Counts as activity for idle expiry without being an execution. */
  touch(sandboxId: SandboxId): void {
    this.#activityOf(sandboxId).lastActiveAt = this.#clock.now();
  }

  isRunning(sandboxId: SandboxId): boolean {
    return (this.#sandboxes.get(sandboxId)?.executions.size ?? 0) > 0;
  }

  wasUsed(sandboxId: SandboxId): boolean {
    return this.#sandboxes.get(sandboxId)?.used ?? false;
  }

  /** Undefined when this server has seen none. */
  lastActiveAt(sandboxId: SandboxId): number | undefined {
    return this.#sandboxes.get(sandboxId)?.lastActiveAt;
  }

  cancelSandbox(sandboxId: SandboxId): void {
    for (const execution of this.#sandboxes.get(sandboxId)?.executions ?? []) execution.cancel();
  }

  /** From now on nothing begins in the context; what runs in it may still end by itself. */
  endContext(sandboxId: SandboxId, contextId: ContextId): void {
    this.#activityOf(sandboxId).endedContexts.add(contextId);
  }

  /** How many were still under way. */
  cancelContext(sandboxId: SandboxId, contextId: ContextId): number {
    const executions = [...(this.#sandboxes.get(sandboxId)?.executions ?? [])];
    const canceled = executions.filter((execution) => execution.contextId === contextId);
    for (const execution of canceled) execution.cancel();
    return canceled.length;
  }

  /** Nothing will happen in it any more; executions that still end keep their own hold. */
  forget(sandboxId: SandboxId): void {
    this.#sandboxes.delete(sandboxId);
  }

  #activityOf(sandboxId: SandboxId): LiveActivity {
    let activity = this.#sandboxes.get(sandboxId);
    if (!activity) {
      activity = { executions: new Set(), endedContexts: new Set(), lastActiveAt: this.#clock.now(), used: false };
      this.#sandboxes.set(sandboxId, activity);
    }
    return activity;
  }
}
