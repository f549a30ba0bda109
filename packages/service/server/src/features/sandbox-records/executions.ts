import type { ContextId, SandboxId } from '@cloche/contract';
import type { Changes } from '../../platform/base/changes.ts';
import type { Clock } from '../../platform/base/clock.ts';

/** An active execution. Disposing it ends the execution. */
export interface Execution extends Disposable {
  /** Context of a run; undefined for a command. */
  readonly contextId: ContextId | undefined;
  /** Makes the execution report cancellation at once, without waiting for the agent. */
  cancel(): void;
}

interface LiveActivity {
  readonly executions: Set<Execution>;
  /** Number of requests that use the sandbox now. */
  uses: number;
  /**
   * Contexts deleted through this server. An execution accepted before the deletion and started after it is canceled
   * too.
   */
  readonly endedContexts: Set<ContextId>;
  lastActiveAt: number;
  used: boolean;
}

/**
 * Tracks the executions that this server runs in each sandbox. Derives `running` and `idle`, and cancels executions
 * when a sandbox or context ends.
 */
export class Executions {
  readonly #clock: Clock;
  readonly #changes: Changes<SandboxId>;
  readonly #onActivity: ((sandboxId: SandboxId) => void) | undefined;
  readonly #sandboxes = new Map<SandboxId, LiveActivity>();

  /** @param onActivity called at the begin and the end of each execution, and for other activity */
  constructor(clock: Clock, changes: Changes<SandboxId>, onActivity?: (sandboxId: SandboxId) => void) {
    this.#clock = clock;
    this.#changes = changes;
    this.#onActivity = onActivity;
  }

  /**
   * @param options.isUse false for an execution that no request waits for: it does not keep the sandbox from a pause
   */
  begin(
    sandboxId: SandboxId,
    contextId: ContextId | undefined,
    cancel: () => void,
    { isUse = true }: { readonly isUse?: boolean } = {},
  ): Execution {
    const activity = this.#activityOf(sandboxId);
    const uses = isUse ? 1 : 0;
    const execution: Execution = {
      contextId,
      cancel,
      [Symbol.dispose]: () => {
        if (!activity.executions.delete(execution)) return;
        activity.uses -= uses;
        activity.lastActiveAt = this.#clock.now();
        if (activity.executions.size === 0) this.#changes.wake(sandboxId);
        this.#onActivity?.(sandboxId);
      },
    };
    activity.executions.add(execution);
    activity.uses += uses;
    activity.used = true;
    activity.lastActiveAt = this.#clock.now();
    if (activity.executions.size === 1) this.#changes.wake(sandboxId);
    this.#onActivity?.(sandboxId);
    if (contextId !== undefined && activity.endedContexts.has(contextId)) cancel();
    return execution;
  }

  /** Records activity that restarts the idle timeout but is not an execution. */
  touch(sandboxId: SandboxId): void {
    this.#activityOf(sandboxId).lastActiveAt = this.#clock.now();
    this.#onActivity?.(sandboxId);
  }

  /** Begins a use that is not an execution, such as a transfer of a file. Disposing it ends the use. */
  use(sandboxId: SandboxId): Disposable {
    const activity = this.#activityOf(sandboxId);
    activity.uses += 1;
    this.touch(sandboxId);
    return {
      [Symbol.dispose]: () => {
        activity.uses -= 1;
        this.touch(sandboxId);
      },
    };
  }

  /** Returns whether a request uses the sandbox now. */
  isInUse(sandboxId: SandboxId): boolean {
    return (this.#sandboxes.get(sandboxId)?.uses ?? 0) > 0;
  }

  isRunning(sandboxId: SandboxId): boolean {
    return (this.#sandboxes.get(sandboxId)?.executions.size ?? 0) > 0;
  }

  /** Returns the sandboxes that are running or in use through this server. */
  active(): SandboxId[] {
    return [...this.#sandboxes.keys()].filter((id) => this.isRunning(id) || this.isInUse(id));
  }

  /** Returns the sandboxes that requests use now. */
  inUse(): SandboxId[] {
    return [...this.#sandboxes.keys()].filter((id) => this.isInUse(id));
  }

  wasUsed(sandboxId: SandboxId): boolean {
    return this.#sandboxes.get(sandboxId)?.used ?? false;
  }

  /** Returns undefined when this server has seen no activity. */
  lastActiveAt(sandboxId: SandboxId): number | undefined {
    return this.#sandboxes.get(sandboxId)?.lastActiveAt;
  }

  /** As `lastActiveAt`, but what runs by itself is no use while it runs. */
  lastUsedAt(sandboxId: SandboxId): number | undefined {
    return this.lastActiveAt(sandboxId);
  }

  cancelSandbox(sandboxId: SandboxId): void {
    for (const execution of this.#sandboxes.get(sandboxId)?.executions ?? []) execution.cancel();
  }

  /** Cancels executions that start in the context from now on. Active ones continue. */
  endContext(sandboxId: SandboxId, contextId: ContextId): void {
    this.#activityOf(sandboxId).endedContexts.add(contextId);
  }

  /** Cancels the active executions of the context and returns how many there were. */
  cancelContext(sandboxId: SandboxId, contextId: ContextId): number {
    const executions = [...(this.#sandboxes.get(sandboxId)?.executions ?? [])];
    const canceled = executions.filter((execution) => execution.contextId === contextId);
    for (const execution of canceled) execution.cancel();
    return canceled.length;
  }

  /** Returns the sandboxes whose state this server keeps. */
  known(): SandboxId[] {
    return [...this.#sandboxes.keys()];
  }

  /** Drops the state of an ended sandbox. Executions that are still ending keep their own reference to it. */
  forget(sandboxId: SandboxId): void {
    this.#sandboxes.delete(sandboxId);
  }

  #activityOf(sandboxId: SandboxId): LiveActivity {
    let activity = this.#sandboxes.get(sandboxId);
    if (!activity) {
      activity = {
        executions: new Set(),
        uses: 0,
        endedContexts: new Set(),
        lastActiveAt: this.#clock.now(),
        used: false,
      };
      this.#sandboxes.set(sandboxId, activity);
    }
    return activity;
  }
}
