import { setImmediate } from 'node:timers/promises';
import type { SandboxId } from '@cloche/contract';
import type { Logger } from 'pino';
import type { AgentConnections } from '../../agent-client/agent-connections.ts';
import type { Clock } from '../../base/clock.ts';
import { Deadline, pause } from '../../base/deadline.ts';
import {
  AgentFault,
  type Instance,
  type Launched,
  LaunchFault,
  type RuntimeDriver,
} from '../../driver/runtime-driver.ts';
import { type SandboxRecord, toLaunchSpec } from '../record/sandbox.ts';
import type { SandboxRepository } from '../record/sandbox-repository.ts';
import type { SandboxMetrics } from './sandbox-metrics.ts';

interface Launch {
  readonly abort: AbortController;
  settled: Promise<void>;
}

export interface LaunchSandboxDeps {
  readonly sandboxes: SandboxRepository;
  readonly driver: RuntimeDriver;
  readonly connections: AgentConnections;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: SandboxMetrics;
  readonly launchTimeoutMs: number;
}

/** Takes a record from `creating` to `ready` in the background, or to `failed` with nothing left behind. */
export class LaunchSandbox {
  readonly #deps: LaunchSandboxDeps;
  readonly #launches = new Map<SandboxId, Launch>();

  constructor(deps: LaunchSandboxDeps) {
    this.#deps = deps;
  }

  /** Claims the launch of a record that is about to be inserted, so that no reconciler takes it for abandoned. */
  claim(id: SandboxId): void {
    this.#launches.set(id, { abort: new AbortController(), settled: Promise.resolve() });
  }

  /** The record was not inserted after all. */
  release(id: SandboxId): void {
    this.#launches.delete(id);
  }

  isUnderWay(id: SandboxId): boolean {
    return this.#launches.has(id);
  }

  /** Returns at once. A launch that this server has under way already goes on alone. */
  start(record: SandboxRecord): void {
    const launch = this.#launches.get(record.id) ?? { abort: new AbortController(), settled: Promise.resolve() };
    this.#launches.set(record.id, launch);
    launch.settled = this.#launch(record, launch.abort.signal).finally(() => this.#launches.delete(record.id));
  }

  /** A launch that a dead server left behind starts again as the next generation; undefined when it has moved on. */
  async restart(record: SandboxRecord): Promise<void> {
    this.claim(record.id);
    const next = await this.#deps.sandboxes
      .transition(record, 'relaunch', { generation: record.generation + 1 })
      .catch((error) => {
        this.release(record.id);
        throw error;
      });
    if (next) this.start(next);
    else this.release(record.id);
  }

  /** Resolves when nothing of this server's launch goes on; the record is left to the caller. */
  async abort(id: SandboxId): Promise<void> {
    const launch = this.#launches.get(id);
    launch?.abort.abort();
    await launch?.settled;
  }

  /** Undoes every launch; their records stay `creating` and start again with the next server. */
  async abortAll(): Promise<void> {
    await Promise.all([...this.#launches.keys()].map((id) => this.abort(id)));
  }

  async #launch(record: SandboxRecord, aborted: AbortSignal): Promise<void> {
    const { clock, launchTimeoutMs, log, metrics } = this.#deps;
    using deadline = new Deadline(launchTimeoutMs, aborted);
    const startedAt = clock.now();
    try {
      const instance = await this.#makeReady(record, deadline.signal);
      metrics.launched((clock.now() - startedAt) / 1000);
      await this.#connectAhead(instance, aborted);
    } catch (error) {
      // Whoever aborted it decides what becomes of the record.
      if (aborted.aborted) return;
      log.warn({ err: error, sandboxId: record.id, generation: record.generation }, 'launch failed');
      const reason = deadline.expired
        ? `The sandbox was not ready within ${launchTimeoutMs} ms.`
        : describeFailure(error, record, this.#deps.driver);
      await this.#fail(record, reason);
    }
  }

  async #makeReady(record: SandboxRecord, signal: AbortSignal): Promise<Instance> {
    const { sandboxes, connections, clock, driver } = this.#deps;
    const { instance, agentAnswers } = await this.#launchInstance(record, signal);
    try {
      const launched = agentAnswers ? record : await sandboxes.transition(record, 'launch', { instance });
      if (!launched) throw new Superseded();
      const hasEnvironment = Object.keys(record.env).length > 0;
      if (hasEnvironment || !agentAnswers) {
        const agent = await connections.get(instance, signal);
        if (hasEnvironment) await agent.setEnvironment(record.env, signal);
      }
      signal.throwIfAborted();
      const ready = await sandboxes.transition(launched, 'open', { instance, lastActiveAt: clock.now() });
      if (!ready) throw new Superseded();
      return instance;
    } catch (error) {
      connections.close(instance);
      await driver.stop(record.id, record.generation).catch((stopError) => {
        // Its record will not be live: the reconciler removes the instance.
        this.#deps.log.warn({ err: stopError, sandboxId: record.id }, 'an instance could not be stopped yet');
      });
      throw error;
    }
  }

  /** Once whoever waited for the sandbox has heard of it, and before it is used: a first run finds the connection made. */
  async #connectAhead(instance: Instance, aborted: AbortSignal): Promise<void> {
    await setImmediate();
    if (aborted.aborted) return;
    try {
      await this.#deps.connections.get(instance, aborted);
    } catch (error) {
      // Whoever uses it tries again, and judges what that says.
      if (!aborted.aborted) this.#deps.log.debug({ err: error, sandboxId: instance.sandboxId }, 'not connected ahead');
    }
  }

  /** A host daemon that restarts is waited for. */
  async #launchInstance(record: SandboxRecord, signal: AbortSignal): Promise<Launched> {
    for (let waitMs = 100; ; waitMs = Math.min(waitMs * 2, 2000)) {
      try {
        return await this.#deps.driver.launch(record.id, record.generation, toLaunchSpec(record), signal);
      } catch (error) {
        if (!(error instanceof LaunchFault && error.kind === 'unreachable')) throw error;
        await pause(waitMs, signal);
        signal.throwIfAborted();
      }
    }
  }

  async #fail(record: SandboxRecord, failureReason: string): Promise<void> {
    const { sandboxes, log, metrics } = this.#deps;
    try {
      const current = await sandboxes.find(record.id);
      if (current?.generation !== record.generation) return;
      if (await sandboxes.transition(current, 'fail', { failureReason })) metrics.failed();
    } catch (error) {
      log.error({ err: error, sandboxId: record.id }, 'a failed launch could not be recorded');
    }
  }
}

/** The record was ended or taken over while it was launched. */
class Superseded extends Error {
  override readonly name = 'Superseded';
}

/** For people, with nothing of the host's inside. */
function describeFailure(error: unknown, { networkPolicy, resources }: SandboxRecord, driver: RuntimeDriver): string {
  if (error instanceof AgentFault) return 'The sandbox stopped while it was starting.';
  if (!(error instanceof LaunchFault)) return 'The sandbox could not be launched.';
  switch (error.kind) {
    case 'unsupported': {
      if (driver.isolation.networkModes.includes(networkPolicy.mode)) {
        return `The network mode "${networkPolicy.mode}" could not be enforced when the sandbox was launched. Try again.`;
      }
      const modes = driver.isolation.networkModes.map((mode) => `"${mode}"`).join(' or ');
      return `This host cannot enforce the network mode "${networkPolicy.mode}". Use a mode that it can enforce: ${modes}.`;
    }
    case 'no_capacity':
      return `The host currently has no capacity for ${resources.cpu} cores, ${resources.memoryMb} MiB of memory and ${resources.diskMb} MiB of disk. Try again later or request fewer resources.`;
    case 'template_not_found':
      return 'The template version is no longer on this host. Use the latest version.';
    case 'unreachable':
    case 'failed':
      return 'The sandbox could not be launched.';
  }
}
