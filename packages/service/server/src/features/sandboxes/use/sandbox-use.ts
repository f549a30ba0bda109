import type { SandboxId } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import { type AgentClient, AgentError, type Instance } from '@cloche/runtime';
import type { AgentConnections } from '@cloche/runtime/agent-connections';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import { AppError, unavailable } from '../../../platform/base/app-error.ts';
import type { Credential } from '../../../platform/keys/credential.ts';
import type { Waking } from '../../pauses/pause-moves.ts';
import { WakeSandbox } from '../../pauses/wake-sandbox.ts';
import { tooSlow } from '../../sandbox-records/agent-failures.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import { requireLive, type SandboxAccess } from '../../sandbox-records/sandbox-access.ts';
import { factsOf } from '../../sandbox-status/status-facts.ts';
import type { AwaitSandbox } from './await-sandbox.ts';
import type { ErrorTranslator } from './error-translator.ts';

export interface SandboxUseDeps {
  readonly access: Pick<SandboxAccess, 'getLive'>;
  readonly awaitSandbox: Pick<AwaitSandbox, 'launched'>;
  readonly connections: Pick<AgentConnections, 'get'>;
  readonly errorTranslator: Pick<ErrorTranslator, 'translate'>;
  readonly wakeSandbox: Pick<WakeSandbox, 'awake' | 'passGate'>;
  /** Ends the requests that other servers may take over, if this server has lost its lease. */
  readonly lookAtFence: () => void;
}

/** A sandbox id and the key that must be allowed to access it. */
export interface SandboxTarget {
  readonly credential: Credential;
  readonly sandboxId: SandboxId;
}

/** Bounds of an act: the caller's signal, a time limit, or both. `signal` also aborts the wait before the act. */
export type ActBounds = (
  | { readonly signal: AbortSignal; readonly actMs?: number }
  | { readonly signal?: AbortSignal; readonly actMs: number }
) & {
  /** Called when the agent is connected, before the act. Writes the audit event, for example. */
  readonly announce?: (sandbox: SandboxRecord) => Promise<void> | undefined;
  /** Whether the act cannot be repeated when the agent has refused it because of a pause: it has read a body. */
  readonly isOnce?: boolean;
  /** How the sandbox is woken if it is paused meanwhile. Default: as by an operation. */
  readonly waking?: Waking;
};

export interface ReadyBounds {
  readonly signal: AbortSignal;
  /** How long to wait for a sandbox that is still being created, or that is paused. */
  readonly readyMs?: number;
  /** Whether a paused sandbox is woken. Default: true. */
  readonly wakes?: boolean;
}

/** An operation on the agent of `sandbox`; `signal` aborts when the operation must end. */
export type Act<T> = (agent: AgentClient, sandbox: SandboxRecord, signal: AbortSignal) => Promise<T>;

export type ReadySandbox = SandboxRecord & { readonly instance: Instance };

/**
 * Gives operations access to a sandbox's agent: finds the sandbox, wakes it or waits until it is ready, connects, runs the
 * operation in time and translates its errors. An `AppError` that the operation throws is passed on unchanged.
 */
export class SandboxUse {
  readonly #deps: SandboxUseDeps;

  constructor(deps: SandboxUseDeps) {
    this.#deps = deps;
  }

  /** Waits until the sandbox is ready and runs `act`. @throws AppError, or the reason of `signal` when it aborts */
  async with<T>(target: SandboxTarget | SandboxRecord, bounds: ActBounds & ReadyBounds, act: Act<T>): Promise<T> {
    return this.act(await this.ready(target, bounds), bounds, act);
  }

  /**
   * Runs `act` without waiting. Does nothing and returns undefined if no instance is ready, or if it is paused. Throws as
   * `with` does.
   */
  async ifReady<T>(sandbox: SandboxRecord, bounds: ActBounds, act: Act<T>): Promise<T | undefined> {
    return isReady(sandbox) ? this.act(sandbox, bounds, act) : undefined;
  }

  /** @throws AppError as `SandboxAccess.getLive` does, `unavailable` when it is not ready in time */
  async ready(
    target: SandboxTarget | SandboxRecord,
    { signal, readyMs = AGENT_LIMITS.readyMs, wakes = true }: ReadyBounds,
  ): Promise<ReadySandbox> {
    const { access, awaitSandbox } = this.#deps;
    const found = requireLive(
      'credential' in target ? await access.getLive(target.credential, target.sandboxId) : target,
    );
    if (isReady(found)) return found;
    using limit = new Deadline(readyMs, signal);
    const settled = requireLive(await awaitSandbox.launched(found, limit.signal, signal));
    if (!wakes) return requireInstance(settled);
    try {
      return requireInstance(requireLive(await this.#deps.wakeSandbox.awake(settled, limit.signal)));
    } catch (error) {
      if (limit.endedBy !== 'timeout' || error instanceof AppError) throw error;
      throw unavailable('The sandbox is still waking; try again.', error);
    }
  }

  /** Returns the sandbox when it is not paused, woken if need be. @throws AppError, or the reason of `signal` */
  async awake(sandbox: SandboxRecord, signal: AbortSignal, waking?: Waking): Promise<SandboxRecord> {
    return this.#deps.wakeSandbox.awake(sandbox, signal, waking);
  }

  /**
   * Runs `act`, and again while the agent refuses it because its sandbox is being paused, which executes nothing. The
   * sandbox is woken in between.
   *
   * @param agent the agent of `sandbox`; `act` gets another one if the wake has lost the memory, and so the agent
   */
  async throughGate<T>(
    sandbox: SandboxRecord,
    agent: AgentClient,
    signal: AbortSignal,
    act: (agent: AgentClient, sandbox: SandboxRecord) => Promise<T>,
    waking?: Waking,
  ): Promise<T> {
    const backOff = WakeSandbox.gatePauses();
    let [now, itsAgent] = [sandbox, agent];
    for (;;) {
      try {
        return await act(itsAgent, now);
      } catch (error) {
        if (!(error instanceof AgentError && error.kind === 'pausing')) throw error;
        now = requireLive(await this.#deps.wakeSandbox.passGate(sandbox.id, signal, backOff, waking));
        if (now.generation !== sandbox.generation) itsAgent = await this.connect(now, signal);
      }
    }
  }

  /** Connects to a ready sandbox and runs `act`. Throws as `with` does. */
  async act<T>(
    sandbox: SandboxRecord,
    { signal: caller, actMs, announce, isOnce, waking }: ActBounds,
    act: Act<T>,
  ): Promise<T> {
    using limit = actMs === undefined ? undefined : new Deadline(actMs, caller);
    // `ActBounds` guarantees that one of the two exists.
    const signal = (limit?.signal ?? caller) as AbortSignal;
    try {
      const agent = await (limit ? this.connect(sandbox, signal) : this.#connectInTime(sandbox, signal));
      if (announce) await announce(sandbox);
      // If the process stood still meanwhile, the timer of the fence may not have fired yet.
      this.#deps.lookAtFence();
      signal.throwIfAborted();
      if (isOnce) return await act(agent, sandbox, signal);
      return await this.throughGate(sandbox, agent, signal, (its, now) => act(its, now, signal), waking);
    } catch (error) {
      if (limit?.endedBy === 'timeout' && !(error instanceof AppError)) throw tooSlow(actMs, error);
      throw await this.explain(sandbox, error, caller);
    }
  }

  /** Returns the agent of a ready sandbox; synchronously if it is already connected. */
  connect(sandbox: SandboxRecord, signal: AbortSignal): AgentClient | Promise<AgentClient> {
    return this.#deps.connections.get(requireInstance(sandbox).instance, signal);
  }

  /** Returns the error to throw for an error of the agent: the reason of `signal` if the caller has aborted. */
  async explain(sandbox: SandboxRecord, error: unknown, signal?: AbortSignal): Promise<unknown> {
    if (error instanceof AppError) return error;
    if (signal?.aborted) return signal.reason;
    return this.#deps.errorTranslator.translate(sandbox, error);
  }

  async #connectInTime(sandbox: SandboxRecord, signal: AbortSignal): Promise<AgentClient> {
    using limit = new Deadline(AGENT_LIMITS.connectMs, signal);
    try {
      return await this.connect(sandbox, limit.signal);
    } catch (error) {
      throw limit.endedBy === 'timeout' ? tooSlow(AGENT_LIMITS.connectMs, error) : error;
    }
  }
}

function isReady(sandbox: SandboxRecord): sandbox is ReadySandbox {
  const { isPending, needsWake } = factsOf(sandbox);
  return !isPending && !needsWake && sandbox.instance !== undefined;
}

function requireInstance(sandbox: SandboxRecord): ReadySandbox {
  const { instance } = sandbox;
  if (!instance) throw new Error(`sandbox ${sandbox.id} is ready without an instance`);
  return sandbox as ReadySandbox;
}
