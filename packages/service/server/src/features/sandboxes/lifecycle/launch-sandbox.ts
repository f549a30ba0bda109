import { setImmediate } from 'node:timers/promises';
import type { SandboxId } from '@cloche/contract';
import { BackOff, Deadline, reportTo } from '@cloche/node-support';
import { type Instance, type Instances, LaunchError, type Launched, type LaunchHints } from '@cloche/runtime';
import type { AgentConnections } from '@cloche/runtime/agent-connections';
import type { Logger } from 'pino';
import { AppError } from '../../../platform/base/app-error.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import { type Tracing, traced } from '../../../platform/tracing/tracing.ts';
import { type SandboxRecord, type TransitionName, toLaunchSpec } from '../../sandbox-records/sandbox.ts';
import type { SandboxRepository, TransitionChange } from '../../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../../sandbox-status/status-facts.ts';
import { explainLaunchFailure, type LaunchFailure, notReadyWithin } from './launch-failure.ts';
import type { SandboxMetrics } from './sandbox-metrics.ts';

/** Pauses between attempts to launch an instance. */
const PAUSES = { firstMs: 100, longestMs: 2000 };

/** Failures of a runtime that may answer, or may be upgraded, in a moment. */
const AWAITED: ReadonlySet<LaunchError['kind']> = new Set(['unreachable', 'incompatible']);

interface Launch {
  readonly abort: AbortController;
  settled: Promise<void>;
}

export interface LaunchSandboxDeps {
  readonly sandboxes: SandboxRepository;
  readonly driver: Instances;
  readonly connections: AgentConnections;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: SandboxMetrics;
  readonly tracing?: Tracing | undefined;
  readonly launchTimeoutMs: number;
  /** Repeats a launch while room can be made for it. */
  readonly makeRoom: <T>(launch: () => Promise<T>, signal: AbortSignal) => Promise<T>;
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
  #onReady: ((record: SandboxRecord) => void) | undefined;

  constructor(deps: LaunchSandboxDeps) {
    this.#deps = deps;
  }

  /** Registers what begins with each sandbox that has a start command. Call it before the first request. */
  onReady(begin: (record: SandboxRecord) => void): void {
    this.#onReady = begin;
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
  start(record: SandboxRecord, { expectsImmediateLoad }: LaunchHints = {}): void {
    const launch = this.#launches.get(record.id) ?? { abort: new AbortController(), settled: Promise.resolve() };
    this.#launches.set(record.id, launch);
    launch.settled = this.#launch(record, { expectsImmediateLoad }, launch.abort.signal).finally(() =>
      this.#launches.delete(record.id),
    );
  }

  /**
   * Launches a sandbox again, as the next generation, after its server has ended. Does nothing if the record has
   * changed since, or if this server is already launching it.
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
    // The other server may have launched an instance that it could not record.
    this.#stop(record).catch(reportTo(this.#deps.log));
  }

  /** Aborts a launch of this server and resolves when it has ended. The caller decides what happens to the record. */
  async abort(id: SandboxId): Promise<void> {
    const launch = this.#launches.get(id);
    launch?.abort.abort();
    await launch?.settled;
  }

  /**
   * Aborts and undoes every launch. The records stay pending until another server, or the next process, launches them
   * again.
   */
  async handOver(): Promise<void> {
    const { sandboxes, serverId } = this.#deps;
    await Promise.all([...this.#launches.keys()].map((id) => this.abort(id)));
    await sandboxes.releaseLaunches(serverId);
  }

  async #launch(record: SandboxRecord, hints: LaunchHints, aborted: AbortSignal): Promise<void> {
    const { clock, driver, launchTimeoutMs, log, metrics, tracing } = this.#deps;
    using deadline = new Deadline(launchTimeoutMs, aborted);
    const startedAt = clock.now();
    try {
      const instance = await traced(tracing, 'launch sandbox', () => this.#makeReady(record, hints, deadline.signal));
      if (record.startCommand) this.#onReady?.(record);
      metrics.launched((clock.now() - startedAt) / 1000);
      await this.#connectAhead(instance, aborted);
    } catch (error) {
      // The caller that aborted the launch decides what happens to the record.
      if (aborted.aborted) return;
      log.warn({ err: error, sandboxId: record.id, generation: record.generation }, 'launch failed');
      const isTooSlow = deadline.endedBy === 'timeout';
      const failure = isTooSlow ? notReadyWithin(launchTimeoutMs) : explainLaunchFailure(error, record, driver);
      await this.#fail(record, failure);
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
      // The instance is not stopped, because the sandbox may be ready. If it is not, it is launched again and the
      // reconciler removes this instance.
      if (isOpen === undefined) throw error;
      await this.#stop(record);
      throw error;
    }
  }

  /** Stops the instance of a generation that does not belong, or no longer belongs, to a live record. */
  async #stop({ id, generation }: SandboxRecord): Promise<void> {
    try {
      await this.#deps.driver.stop(id, generation);
    } catch (error) {
      // The reconciler stops it later.
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
        const withOwner = { ...hints, owner: record.orgId };
        const { driver, makeRoom } = this.#deps;
        const launch = () => driver.launch(record.id, record.generation, toLaunchSpec(record), signal, withOwner);
        return await makeRoom(launch, signal);
      } catch (error) {
        if (!(error instanceof LaunchError && AWAITED.has(error.kind))) throw error;
        await backOff.pause(signal);
        signal.throwIfAborted();
      }
    }
  }

  /**
   * Changes the record. Because the instance is already launched, repeats the change while the database does not
   * answer, for example during a migration or a failover. Returns undefined if the record was ended or taken over.
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

  /** Returns the record if its change was committed and only the answer was lost. */
  async #findChanged({ id, generation, status }: SandboxRecord): Promise<SandboxRecord | undefined> {
    const current = await this.#deps.sandboxes.find(id);
    if (current?.generation !== generation || current.status === status) return undefined;
    return factsOf(current).acceptsWork ? current : undefined;
  }

  /**
   * Returns whether the record is ready although its change seemed to fail: it may have been committed and only the
   * answer lost. Undefined while the database does not answer.
   */
  async #isOpen({ id, generation }: SandboxRecord): Promise<boolean | undefined> {
    try {
      const current = await this.#deps.sandboxes.find(id);
      return current?.generation === generation && factsOf(current).isReady;
    } catch (error) {
      this.#deps.log.warn({ err: error, sandboxId: id }, 'a failed launch could not be looked up');
      return undefined;
    }
  }

  async #fail(record: SandboxRecord, failure: LaunchFailure): Promise<void> {
    const { sandboxes, log } = this.#deps;
    try {
      const current = await sandboxes.find(record.id);
      if (current?.generation !== record.generation || !factsOf(current).isPending) return;
      await sandboxes.transition(current, 'fail', failure);
    } catch (error) {
      log.error({ err: error, sandboxId: record.id }, 'a failed launch could not be recorded');
    }
  }
}

/** Means that the record was ended or taken over during its launch. */
class SupersededError extends Error {
  override readonly name = 'SupersededError';
}
