import type { FileUser, SandboxId } from '@cloche/contract';
import type { AgentFileEvent } from '@cloche/protocol';
import type { AgentConnections } from '../agent-client/agent-connections.ts';
import type { Credential } from '../api-keys/credential.ts';
import { AppError, invalidRequest } from '../base/app-error.ts';
import { Deadline } from '../base/deadline.ts';
import { type AgentFiles, FileFault } from '../driver/agent-files.ts';
import type { AgentClient, Instance } from '../driver/runtime-driver.ts';
import type { Executions } from '../sandboxes/record/executions.ts';
import { isPending, type SandboxRecord } from '../sandboxes/record/sandbox.ts';
import { requireLive, type SandboxAccess } from '../sandboxes/record/sandbox-access.ts';
import type { AwaitSandbox } from '../sandboxes/use/await-sandbox.ts';
import type { JudgeFault } from '../sandboxes/use/judge-fault.ts';

/** A large tree takes a while to copy or to delete. */
const ACT_MS = 300_000;
/** How long a sandbox that is still being made is waited for. */
const SETTLE_MS = 60_000;
/** A transfer counts as activity for as long as it goes on. */
const TOUCH_MS = 5_000;

export interface AccessFilesDeps {
  readonly access: SandboxAccess;
  readonly waits: AwaitSandbox;
  readonly connections: AgentConnections;
  readonly executions: Executions;
  readonly faults: JudgeFault;
}

export interface FileRequest {
  readonly credential: Credential;
  readonly params: { readonly sandboxId: SandboxId };
  readonly signal: AbortSignal;
}

/** Reaches the files of sandboxes, for those who may. */
export class AccessFiles {
  readonly #deps: AccessFilesDeps;

  constructor(deps: AccessFilesDeps) {
    this.#deps = deps;
  }

  /** Does `act`, which moves no bytes through the service, within a time of its own. Throws as `with` does. */
  async act<T>(request: FileRequest, act: (files: AgentFiles, signal: AbortSignal) => Promise<T>): Promise<T> {
    using limit = new Deadline(ACT_MS, request.signal);
    try {
      return await this.with({ ...request, signal: limit.signal }, (files) => act(files, limit.signal));
    } catch (error) {
      if (!limit.expired) throw error;
      throw new AppError(
        'unavailable',
        `The operation did not finish in the sandbox within ${ACT_MS / 1000} seconds; try again.`,
        { cause: error },
      );
    }
  }

  /**
   * Does `act` with the files of the sandbox, which is waited for while it is being made; `touch` keeps it from being
   * idle for as long as what `act` returns is still being read.
   *
   * @throws AppError
   */
  async with<T>(
    { credential, params, signal }: FileRequest,
    act: (files: AgentFiles, activity: Activity) => Promise<T>,
  ): Promise<T> {
    const sandbox = await this.#ready(credential, params.sandboxId, signal);
    const activity = new Activity(() => this.#deps.executions.touch(sandbox.id));
    try {
      const agent = await this.#connect(sandbox, signal);
      const result = await act(agent.files, activity);
      activity.endUnlessHeld();
      return result;
    } catch (error) {
      activity.end();
      throw await this.#explain(sandbox, error, signal);
    }
  }

  /**
   * The changes of a directory, from the moment that this resolves. Watching is no use of the sandbox: it may become idle.
   *
   * @throws AppError, here and from the iteration
   */
  async watch(
    { credential, params, signal }: FileRequest,
    path: string,
    { user, ...options }: { recursive: boolean; user: FileUser | undefined },
  ): Promise<AsyncIterable<AgentFileEvent>> {
    const sandbox = await this.#ready(credential, params.sandboxId, signal);
    const explained = async <T>(work: Promise<T>) =>
      work.catch(async (error: unknown) => {
        throw await this.#explain(sandbox, error, signal);
      });
    const agent = await explained(this.#connect(sandbox, signal));
    const changes = (await explained(agent.files.as(user).watch(path, options, signal)))[Symbol.asyncIterator]();
    return {
      [Symbol.asyncIterator]: () => ({
        next: () => explained(changes.next()),
        return: async () => {
          await changes.return?.();
          return { done: true, value: undefined };
        },
      }),
    };
  }

  async #ready(credential: Credential, id: SandboxId, signal: AbortSignal): Promise<ReadySandbox> {
    const { access, waits } = this.#deps;
    using limit = new Deadline(SETTLE_MS, signal);
    const sandbox = requireLive(await waits.settled(await access.getLive(credential, id), limit.signal));
    const { instance } = sandbox;
    if (!isPending(sandbox) && instance) return { ...sandbox, instance };
    throw new AppError('unavailable', 'The sandbox is still being created; try again.', { retryAfterSeconds: 1 });
  }

  async #connect({ instance }: ReadySandbox, signal: AbortSignal): Promise<AgentClient> {
    using limit = new Deadline(SETTLE_MS, signal);
    return await this.#deps.connections.get(instance, limit.signal);
  }

  async #explain(sandbox: SandboxRecord, error: unknown, signal: AbortSignal): Promise<unknown> {
    if (error instanceof FileFault) return toAppError(error);
    if (signal.aborted) return signal.reason;
    return this.#deps.faults.judge(sandbox, error);
  }
}

type ReadySandbox = SandboxRecord & { readonly instance: Instance };

/** Use of a sandbox that is going on. */
export class Activity {
  readonly #touch: () => void;
  readonly #timer: NodeJS.Timeout;
  #isHeld = false;

  constructor(touch: () => void) {
    this.#touch = touch;
    this.#timer = setInterval(touch, TOUCH_MS);
    this.#timer.unref();
    touch();
  }

  /** It goes on until `emitter` has closed. */
  holdUntilClosed(emitter: NodeJS.EventEmitter): void {
    this.#isHeld = true;
    emitter.once('close', () => this.end());
  }

  endUnlessHeld(): void {
    if (!this.#isHeld) this.end();
  }

  end(): void {
    clearInterval(this.#timer);
    this.#touch();
  }
}

function toAppError(fault: FileFault): AppError {
  const { kind, message, details } = fault;
  if (kind === 'bad_archive') return invalidRequest({ path: 'body', message: message.toWellFormed() });
  // Which field had the path, its client knows better than the agent.
  if (kind === 'invalid_path' || kind === 'too_many') {
    return invalidRequest({ path: 'path', message: message.toWellFormed() });
  }
  const { path, sizeBytes } = details;
  if (kind === 'permission_denied' && path !== undefined) {
    return new AppError(kind, message.toWellFormed(), { cause: fault, details: { path } });
  }
  if (kind === 'range_not_satisfiable' && sizeBytes !== undefined) {
    return new AppError(kind, message.toWellFormed(), { cause: fault, details: { sizeBytes } });
  }
  return new AppError(kind, message.toWellFormed(), { cause: fault });
}
