import { setImmediate } from 'node:timers/promises';
import type { SandboxId } from '@cloche/contract';
import { BackOff, Deadline } from '@cloche/node-support';
import type { Logger } from 'pino';
import type { AgentConnections } from '../../agent-client/agent-connections.ts';
import { AppError } from '../../base/app-error.ts';
import type { Clock } from '../../base/clock.ts';
import {
  AgentError,
  type Instance,
  LaunchError,
  type Launched,
  type LaunchHints,
  type RuntimeDriver,
} from '../../driver/runtime-driver.ts';
import { type Tracing, traced } from '../../tracing/tracing.ts';
import { isLive, isPending, type SandboxRecord, type TransitionName, toLaunchSpec } from '../record/sandbox.ts';
import type { SandboxRepository, TransitionChange } from '../record/sandbox-repository.ts';
import type { SandboxMetrics } from './sandbox-metrics.ts';

/** Pauses between attempts to launch an instance. */
const PAUSES = { firstMs: 100, longestMs: 2000 };

/** Failures of a runtime that may answer, or may be upgraded, in a moment. */
const AWAITED: ReadonlySet<LaunchError['kind']> = new Set(['unreachable', 'incompatible']);

interface Launch {
  readonly abort: AbortController;
  settled: Promise<void>;
}

/** Begins the failure reason of a sandbox that no host had room for. */
const NO_CAPACITY = 'The host currently has no capacity';
/** Begins the failure reason of a sandbox whose launch took too long. */
const NOT_READY = 'The sandbox was not ready within';
const NO_VERSION = 'The template version is no longer on this host. Use the latest version.';

export interface LaunchSandboxDeps {
  readonly sandboxes: SandboxRepository;
  readonly driver: RuntimeDriver;
  readonly connections: AgentConnections;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: SandboxMetrics;
  readonly tracing?: Tracing | undefined;
  readonly launchTimeoutMs: number;
  /** Id of this server, which owns its launches. */
  readonly serverId: string;
}

/**
 * Takes a record from `creating` to `ready` in the background. A failed launch becomes `failed` and leaves nothing
 * behind.
 */
export class LaunchSandbox {
  readonly #deps: LaunchSandboxDeps;
  readonly #launches = new Map<SandboxId, Launch>();

  constructor(deps: LaunchSandboxDeps) {
    this.#deps = deps;
  }

  /**
   * Claims the launch of a record before its insert, so that it never counts as abandoned. Returns the owner of the
   * launch.
   */
  claim(id: SandboxId): string {
    this.#launches.set(id, { abort: new AbortController(), settled: Promise.resolve() });
    return this.#deps.serverId;
  }

  /** Gives up a claim whose record was not inserted. */
  release(id: SandboxId): void {
    this.#launches.delete(id);
  }

  isUnderWay(id: SandboxId): boolean {
    return this.#launches.has(id);
  }

  /** Starts a launch and returns at once. */
  start(record: SandboxRecord, { startsBusy }: LaunchHints = {}): void {
    const launch = this.#launches.get(record.id) ?? { abort: new AbortController(), settled: Promise.resolve() };
    this.#launches.set(record.id, launch);
    launch.settled = this.#launch(record, { startsBusy }, launch.abort.signal).finally(() =>
      this.#launches.delete(record.id),
    );
  }

  /**
   * Relaunches a record of a server that has ended, as the next generation. Does nothing if the record has changed since, or
   * if another job of this server relaunches it.
   */
  async restart(record: SandboxRecord): Promise<void> {
    if (this.isUnderWay(record.id)) return;
    const launchOwner = this.claim(record.id);
    const next = await this.#deps.sandboxes
      .transition(record, 'relaunch', { generation: record.generation + 1, launchOwner })
      .catch((error) => {
        this.release(record.id);
        throw error;
      });
    if (!next) return this.release(record.id);
    this.start(next);
    // The other server may have launched an instance without being able to write it down.
    void this.#stop(record);
  }

  /** Aborts a launch of this server and resolves when it has ended. The caller decides what happens to the record. */
  async abort(id: SandboxId): Promise<void> {
    const launch = this.#launches.get(id);
    launch?.abort.abort();
    await launch?.settled;
  }

  /** Aborts and undoes every launch. Their records stay pending, and another server, or the next start, relaunches them. */
  async handOver(): Promise<void> {
    const { sandboxes, serverId } = this.#deps;
    await Promise.all([...this.#launches.keys()].map((id) => this.abort(id)));
    await sandboxes.releaseLaunches(serverId);
  }

  async #launch(record: SandboxRecord, hints: LaunchHints, aborted: AbortSignal): Promise<void> {
    const { clock, launchTimeoutMs, log, metrics, tracing } = this.#deps;
    using deadline = new Deadline(launchTimeoutMs, aborted);
    const startedAt = clock.now();
    try {
      const instance = await traced(tracing, 'launch sandbox', () => this.#makeReady(record, hints, deadline.signal));
      metrics.launched((clock.now() - startedAt) / 1000);
      await this.#connectAhead(instance, aborted);
    } catch (error) {
      // The caller that aborted the launch decides what happens to the record.
      if (aborted.aborted) return;
      log.warn({ err: error, sandboxId: record.id, generation: record.generation }, 'launch failed');
      const reason =
        deadline.endedBy === 'timeout'
          ? `${NOT_READY} ${launchTimeoutMs} ms.`
          : describeFailure(error, record, this.#deps.driver);
      await this.#fail(record, reason);
    }
  }

  async #makeReady(record: SandboxRecord, hints: LaunchHints, signal: AbortSignal): Promise<Instance> {
    const { connections, clock } = this.#deps;
    const { instance, agentAnswers } = await this.#launchInstance(record, hints, signal);
    try {
      const launched = agentAnswers ? record : await this.#change(record, 'launch', { instance }, signal);
      if (!launched) throw new SupersededError();
      const hasEnvironment = Object.keys(record.env).length > 0;
      if (hasEnvironment || !agentAnswers) {
        const agent = await connections.get(instance, signal);
        if (hasEnvironment) await agent.setEnvironment(record.env, signal);
      }
      signal.throwIfAborted();
      const readyAt = clock.now();
      const ready = await this.#change(launched, 'open', { instance, lastActiveAt: readyAt, readyAt }, signal);
      if (!ready) throw new SupersededError();
      return instance;
    } catch (error) {
      const isOpen = await this.#isOpen(record);
      if (isOpen) return instance;
      connections.close(instance);
      // Whether the sandbox is ready cannot be told: if not, it is launched again, and the reconciler removes the instance.
      if (isOpen === undefined) throw error;
      await this.#stop(record);
      throw error;
    }
  }

  /** Stops the instance of a generation that is not, or not any more, that of a live record. */
  async #stop({ id, generation }: SandboxRecord): Promise<void> {
    try {
      await this.#deps.driver.stop(id, generation);
    } catch (error) {
      // The reconciler removes the instance.
      this.#deps.log.warn({ err: error, sandboxId: id, generation }, 'an instance could not be stopped yet');
    }
  }

  /**
   * Connects to the agent in advance, so that the first run does not wait for it. Runs after the waiters for `ready`
   * have resumed.
   */
  async #connectAhead(instance: Instance, aborted: AbortSignal): Promise<void> {
    await setImmediate();
    if (aborted.aborted) return;
    try {
      await this.#deps.connections.get(instance, aborted);
    } catch (error) {
      // The first use connects again, and its error is reported.
      if (!aborted.aborted) this.#deps.log.debug({ err: error, sandboxId: instance.sandboxId }, 'not connected ahead');
    }
  }

  /** Launches the instance. Retries while the runtime does not answer, or is being upgraded. */
  async #launchInstance(record: SandboxRecord, hints: LaunchHints, signal: AbortSignal): Promise<Launched> {
    const backOff = new BackOff(PAUSES);
    for (;;) {
      try {
        return await this.#deps.driver.launch(record.id, record.generation, toLaunchSpec(record), signal, hints);
      } catch (error) {
        if (!(error instanceof LaunchError && AWAITED.has(error.kind))) throw error;
        await backOff.pause(signal);
        signal.throwIfAborted();
      }
    }
  }

  /**
   * Changes the record. Repeats the change while the database does not answer, as at a migration or a failover: the
   * instance is launched. Returns undefined if the record was ended or taken over.
   */
  async #change(record: SandboxRecord, name: TransitionName, change: TransitionChange, signal: AbortSignal) {
    const backOff = new BackOff(PAUSES);
    for (let isRepeated = false; ; isRepeated = true) {
      try {
        const written = isRepeated ? await this.#findChanged(record) : undefined;
        return written ?? (await this.#deps.sandboxes.transition(record, name, change));
      } catch (error) {
        if (!(error instanceof AppError && error.code === 'unavailable')) throw error;
        await backOff.pause(signal);
        signal.throwIfAborted();
      }
    }
  }

  /** Returns the record if its change was written and only the answer lost. */
  async #findChanged({ id, generation, status }: SandboxRecord): Promise<SandboxRecord | undefined> {
    const current = await this.#deps.sandboxes.find(id);
    return current?.generation === generation && current.status !== status && isLive(current) ? current : undefined;
  }

  /**
   * Returns whether the record is ready although the launch failed: the change can be committed and its answer lost.
   * Undefined while the database does not answer.
   */
  async #isOpen({ id, generation }: SandboxRecord): Promise<boolean | undefined> {
    try {
      const current = await this.#deps.sandboxes.find(id);
      return current?.generation === generation && current.status === 'ready';
    } catch (error) {
      this.#deps.log.warn({ err: error, sandboxId: id }, 'a failed launch could not be looked up');
      return undefined;
    }
  }

  async #fail(record: SandboxRecord, failureReason: string): Promise<void> {
    const { sandboxes, log } = this.#deps;
    try {
      const current = await sandboxes.find(record.id);
      if (current?.generation !== record.generation || !isPending(current)) return;
      await sandboxes.transition(current, 'fail', { failureReason });
    } catch (error) {
      log.error({ err: error, sandboxId: record.id }, 'a failed launch could not be recorded');
    }
  }
}

/** Returns whether a sandbox failed because no host had room for it, so that another one may succeed later. */
export function lackedCapacity({ status, failureReason = '' }: SandboxRecord): boolean {
  return status === 'failed' && failureReason.startsWith(NO_CAPACITY);
}

/** Returns whether a sandbox failed because it was not ready in time. */
export function wasTooSlow({ status, failureReason = '' }: SandboxRecord): boolean {
  return status === 'failed' && failureReason.startsWith(NOT_READY);
}

/** Returns whether a sandbox failed because no host had its template version any more. */
export function lackedVersion({ status, failureReason }: SandboxRecord): boolean {
  return status === 'failed' && failureReason === NO_VERSION;
}

/** Means that the record was ended or taken over during its launch. */
class SupersededError extends Error {
  override readonly name = 'SupersededError';
}

/** Returns a message for the user; it reveals nothing about the host. */
function describeFailure(error: unknown, { networkPolicy, resources }: SandboxRecord, driver: RuntimeDriver): string {
  if (error instanceof AgentError) return 'The sandbox stopped while it was starting.';
  if (!(error instanceof LaunchError)) return 'The sandbox could not be launched.';
  switch (error.kind) {
    case 'unsupported': {
      if (driver.isolation.networkModes.includes(networkPolicy.mode)) {
        return `The network mode "${networkPolicy.mode}" could not be enforced when the sandbox was launched. Try again.`;
      }
      const modes = driver.isolation.networkModes.map((mode) => `"${mode}"`).join(' or ');
      return `This host cannot enforce the network mode "${networkPolicy.mode}". Use a mode that it can enforce: ${modes}.`;
    }
    case 'no_capacity':
      return `${NO_CAPACITY} for ${resources.cpu} cores, ${resources.memoryMb} MiB of memory and ${resources.diskMb} MiB of disk. Try again later or request fewer resources.`;
    case 'template_not_found':
      return NO_VERSION;
    case 'unreachable':
    case 'incompatible':
    case 'failed':
      return 'The sandbox could not be launched.';
  }
}
