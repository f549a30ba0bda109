import type { SandboxId } from '@cloche/contract';
import type { Credential } from '../api-keys/credential.ts';
import { AppError, invalidRequest } from '../app-error.ts';
import type { AgentConnections } from '../runtime/agent-connections.ts';
import { type AgentFiles, FileFault } from '../runtime/agent-files.ts';
import { Deadline } from '../runtime/deadline.ts';
import type { AwaitSandbox } from '../sandboxes/await-sandbox.ts';
import type { Executions } from '../sandboxes/executions.ts';
import type { JudgeFault } from '../sandboxes/judge-fault.ts';
import { isPending } from '../sandboxes/sandbox.ts';
import { requireLive, type SandboxAccess } from '../sandboxes/sandbox-access.ts';

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
      throw new AppError('unavailable', `The sandbox had not done this after ${ACT_MS / 1000} s.`, { cause: error });
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
    const { access, waits, connections, executions, faults } = this.#deps;
    using limit = new Deadline(SETTLE_MS, signal);
    const sandbox = requireLive(await waits.settled(await access.getLive(credential, params.sandboxId), limit.signal));
    if (isPending(sandbox) || !sandbox.instance) {
      throw new AppError('unavailable', 'The sandbox is still being made; try again.', { retryAfterSeconds: 1 });
    }
    const activity = new Activity(() => executions.touch(sandbox.id));
    try {
      const agent = await connections.get(sandbox.instance, limit.signal);
      const result = await act(agent.files, activity);
      activity.endUnlessHeld();
      return result;
    } catch (error) {
      activity.end();
      if (error instanceof FileFault) throw toAppError(error);
      if (signal.aborted) throw signal.reason;
      throw await faults.judge(sandbox, error);
    }
  }
}

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
  const { kind, message, sizeBytes } = fault;
  if (kind === 'bad_archive') return invalidRequest({ path: 'body', message: message.toWellFormed() });
  // Which field had the path, its client knows better than the agent.
  if (kind === 'invalid_path' || kind === 'too_many') {
    return invalidRequest({ path: 'path', message: message.toWellFormed() });
  }
  return new AppError(kind, message.toWellFormed(), {
    cause: fault,
    ...(sizeBytes === undefined ? {} : { details: { sizeBytes } }),
  });
}
