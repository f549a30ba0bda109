import type { FileUser, SandboxId } from '@cloche/contract';
import type { AgentFileEvent } from '@cloche/protocol';
import { type AgentFiles, FileError } from '@cloche/runtime/agent-files';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import type { Call } from '../../platform/call/call.ts';
import { fileError } from '../sandbox-records/agent-failures.ts';
import type { Executions } from '../sandbox-records/executions.ts';
import type { SandboxUse } from '../sandboxes/use/sandbox-use.ts';

/** Interval at which a transfer renews the sandbox's activity. */
const TOUCH_MS = 5_000;

export interface AccessFilesDeps {
  readonly sandboxUse: SandboxUse;
  readonly executions: Executions;
}

/** Who wants to use the files, and how long. */
export type Caller = Pick<Call, 'credential' | 'signal'>;

/** Gives operations access to the files of sandboxes and checks that the key may use them. */
export class AccessFiles {
  readonly #deps: AccessFilesDeps;

  constructor(deps: AccessFilesDeps) {
    this.#deps = deps;
  }

  /** Runs `act`, which transfers no contents through the service, within its own time limit. Throws as `with` does. */
  async act<T>(
    call: Caller,
    sandboxId: SandboxId,
    act: (files: AgentFiles, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    return this.#with(call, sandboxId, AGENT_LIMITS.filesMs, (files, _activity, signal) => act(files, signal));
  }

  /**
   * Waits until the sandbox is ready and runs `act` on its files. `act` can hold the `activity` while its result is
   * still being read, so that the sandbox is not idle meanwhile.
   *
   * @throws AppError
   */
  async with<T>(
    call: Caller,
    sandboxId: SandboxId,
    act: (files: AgentFiles, activity: Activity) => Promise<T>,
  ): Promise<T> {
    return this.#with(call, sandboxId, undefined, act);
  }

  /**
   * Returns the changes of a directory, from the time this resolves. Watching is not activity: the sandbox may become
   * idle.
   *
   * @throws AppError, here and from the iteration
   */
  async watch(
    { credential, signal }: Caller,
    sandboxId: SandboxId,
    path: string,
    { user, ...options }: { recursive: boolean; user: FileUser | undefined },
  ): Promise<AsyncIterable<AgentFileEvent>> {
    const { sandboxUse } = this.#deps;
    const sandbox = await sandboxUse.ready({ credential, sandboxId }, { signal });
    const changes = await sandboxUse.act(sandbox, { signal }, async ({ files }) => {
      const watched = files.as(user).watch(path, options, signal);
      const started = await watched.catch((error) => Promise.reject(explained(error)));
      return started[Symbol.asyncIterator]();
    });
    return {
      [Symbol.asyncIterator]: () => ({
        next: () =>
          changes.next().catch(async (error) => {
            throw await sandboxUse.explain(sandbox, explained(error), signal);
          }),
        return: async () => {
          await changes.return?.();
          return { done: true, value: undefined };
        },
      }),
    };
  }

  async #with<T>(
    { credential, signal }: Caller,
    sandboxId: SandboxId,
    actMs: number | undefined,
    act: (files: AgentFiles, activity: Activity, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { sandboxUse, executions } = this.#deps;
    // A transfer may have read a part of its body.
    const bounds = actMs === undefined ? { signal, isOnce: true } : { signal, actMs };
    return sandboxUse.with({ credential, sandboxId }, bounds, async ({ files }, sandbox, limit) => {
      const activity = new Activity(() => executions.touch(sandbox.id), executions.use(sandbox.id));
      try {
        const result = await act(files, activity, limit);
        activity.endUnlessHeld();
        return result;
      } catch (error) {
        activity.end();
        throw explained(error);
      }
    });
  }
}

/** An ongoing use of a sandbox, renewed at an interval. */
export class Activity {
  readonly #touch: () => void;
  readonly #use: Disposable;
  readonly #timer: NodeJS.Timeout;
  #isHeld = false;
  #isOver = false;

  /** @param use disposed at the end of the activity */
  constructor(touch: () => void, use: Disposable) {
    this.#touch = touch;
    this.#use = use;
    this.#timer = setInterval(touch, TOUCH_MS);
    this.#timer.unref();
    touch();
  }

  /** Continues the activity until `emitter` closes. */
  holdUntilClosed(emitter: NodeJS.EventEmitter): void {
    this.#isHeld = true;
    emitter.once('close', () => this.end());
  }

  endUnlessHeld(): void {
    if (!this.#isHeld) this.end();
  }

  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearInterval(this.#timer);
    this.#touch();
    this.#use[Symbol.dispose]();
  }
}

function explained(error: unknown): unknown {
  return error instanceof FileError ? fileError(error) : error;
}
