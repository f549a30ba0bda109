import { randomBytes } from 'node:crypto';
import type { PauseCause } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import {
  type AgentClient,
  AgentError,
  type Freezing,
  type Instance,
  type InstanceUse,
  type RuntimeDriver,
} from '@cloche/runtime';
import type { AgentConnections } from '@cloche/runtime/agent-connections';
import type { Clock } from '../../platform/base/clock.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import { inTime } from './in-time.ts';
import { memoryUnsupported } from './move-support.ts';

/** Time for the agent to close its gate. One that does not answer is frozen all the same. */
const GATE_MS = 2_000;
/** The same, if the agent ends runs and commands first. */
const FORCED_GATE_MS = 10_000;
const FREEZE_MS = 5_000;
/** Time until a thawed agent answers. */
const ANSWER_MS = 10_000;
/** Time to ask what an instance has used. A later count has what is missed. */
const USE_MS = 1_000;

type Driver = Pick<RuntimeDriver, 'freezing' | 'find' | 'metering'>;

export interface GateClosing {
  readonly by: PauseCause;
  readonly force: boolean;
}

/** Freezes and thaws the instances of sandboxes, and tells their agents. Reads and writes no records. */
export class Freezer {
  readonly #driver: Driver;
  readonly #connections: AgentConnections;
  readonly #clock: Clock;

  constructor(driver: Driver, connections: AgentConnections, clock: Clock) {
    this.#driver = driver;
    this.#connections = connections;
    this.#clock = clock;
  }

  get isSupported(): boolean {
    return this.#driver.freezing !== undefined;
  }

  /**
   * Closes the agent's gate, so that no work begins. Does nothing, and returns the number of runs and waited commands in
   * progress, if there are some and `force` is false; for a pause by idleness, also that of open transfers. Unless it is
   * one, the agent need not answer.
   *
   * @throws AppError `conflict` if the agent has no gate, `AgentError`, `LaunchError`; the gate may be closed then
   */
  async closeGate(sandbox: SandboxRecord, { force, by }: GateClosing): Promise<{ running: number } | undefined> {
    using limit = new Deadline(force ? FORCED_GATE_MS : GATE_MS);
    const isIdle = by === 'idle';
    try {
      const agent = await this.#connections.get(instanceOf(sandbox), limit.signal);
      return await agent.pause(tokenOf(sandbox), { force, isIdle }, limit.signal);
    } catch (error) {
      if (error instanceof AgentError && error.kind === 'not_found') throw memoryUnsupported(sandbox);
      if (limit.endedBy === undefined) throw error;
      if (isIdle) throw new AgentError('timeout', `the agent did not answer within ${GATE_MS} ms`, { cause: error });
      return undefined;
    }
  }

  /** Freezes the instance. */
  async freeze(sandbox: SandboxRecord): Promise<void> {
    await inTime(FREEZE_MS, (signal) => this.#freezing.freeze(instanceOf(sandbox), signal));
  }

  /** Returns what the instance has used so far, or undefined if its place does not say that at once. */
  async useOf(sandbox: SandboxRecord): Promise<InstanceUse | undefined> {
    using limit = new Deadline(USE_MS);
    const uses = await this.#driver.metering?.usesOf([instanceOf(sandbox)], limit.signal).catch(() => []);
    return uses?.find(({ generation }) => generation === sandbox.generation);
  }

  /** Thaws the instance, if it can be frozen, and opens the gate of its agent, which it returns. Idempotent. */
  async thaw(sandbox: SandboxRecord): Promise<AgentClient> {
    const instance = instanceOf(sandbox);
    using limit = new Deadline(ANSWER_MS);
    try {
      await this.#driver.freezing?.thaw(instance, limit.signal);
      const agent = await this.#connections.get(instance, limit.signal);
      const woken = { entropy: randomBytes(32).toString('base64'), now: this.#clock.now() };
      await agent.resume(tokenOf(sandbox), woken, limit.signal);
      return agent;
    } catch (error) {
      if (limit.endedBy === undefined) throw error;
      throw new AgentError('timeout', `the agent did not answer within ${ANSWER_MS} ms after the thaw`, {
        cause: error,
      });
    }
  }

  /** Returns whether the place of the instance says that it is alive. Rejects when its place does not answer. */
  async lives(sandbox: SandboxRecord): Promise<boolean> {
    return (await this.#find(sandbox)) !== undefined;
  }

  /** Returns whether the instance is frozen. Rejects when its place does not answer. */
  async isFrozen(sandbox: SandboxRecord): Promise<boolean> {
    return (await this.#find(sandbox))?.isFrozen ?? false;
  }

  #find(sandbox: SandboxRecord): Promise<Instance | undefined> {
    return inTime(FREEZE_MS, (signal) => this.#driver.find(instanceOf(sandbox), signal));
  }

  get #freezing(): Freezing {
    const { freezing } = this.#driver;
    if (!freezing) throw new AgentError('internal', 'the runtime cannot freeze instances');
    return freezing;
  }
}

function instanceOf({ id, instance }: SandboxRecord): Instance {
  if (!instance) throw new Error(`sandbox ${id} is paused without an instance`);
  return instance;
}

function tokenOf({ id, pauseToken }: SandboxRecord): string {
  if (pauseToken === undefined) throw new Error(`sandbox ${id} is paused without a token`);
  return pauseToken;
}
