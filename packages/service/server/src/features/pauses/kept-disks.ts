import { Deadline } from '@cloche/node-support';
import {
  type AgentClient,
  AgentError,
  type Instance,
  type InstanceName,
  LaunchError,
  type Parked,
  type ParkedDisk,
  type Parking,
  ParkingError,
  type RuntimeDriver,
} from '@cloche/runtime';
import type { AgentConnections } from '@cloche/runtime/agent-connections';
import type { Logger } from 'pino';
import { type SandboxRecord, toLaunchSpec } from '../sandbox-records/sandbox.ts';
import { inTime } from './in-time.ts';

/** Time for the host to end an instance and to write its disk. */
const PARK_MS = 60_000;
/** Time from the launch until the agent answers. */
const BOOT_MS = 25_000;
const ASK_MS = 10_000;

/** Gives an agent what it must have before the first request. */
type Prepare = (agent: AgentClient, signal: AbortSignal) => Promise<void>;

/** Keeps the disks of sandboxes beyond their instances, and launches instances with them. Reads and writes no records. */
export class KeptDisks {
  readonly #driver: Pick<RuntimeDriver, 'parking' | 'launch' | 'stop'>;
  readonly #connections: AgentConnections;
  readonly #log: Logger;
  readonly #removals = new Set<Promise<void>>();

  constructor(driver: Pick<RuntimeDriver, 'parking' | 'launch' | 'stop'>, connections: AgentConnections, log: Logger) {
    this.#driver = driver;
    this.#connections = connections;
    this.#log = log;
  }

  get isSupported(): boolean {
    return this.#driver.parking !== undefined;
  }

  /** Ends the instance, running or frozen, and keeps its disk. Idempotent. Throws as `Parking.park`. */
  async park(sandbox: SandboxRecord): Promise<Parked> {
    const parked = await inTime(PARK_MS, (signal) => this.#parking.park(nameOf(sandbox), signal));
    if (sandbox.instance) this.#connections.close(sandbox.instance);
    return parked;
  }

  /**
   * Makes what an instance has written outlive it. Returns the generation by whose name its disk is kept; undefined where
   * the disk of the instance cannot be kept. Idempotent.
   */
  async keep(sandbox: SandboxRecord): Promise<number | undefined> {
    const { parking } = this.#driver;
    if (!parking) return undefined;
    try {
      return (await inTime(PARK_MS, (signal) => parking.keep(nameOf(sandbox), signal))).generation;
    } catch (error) {
      if (error instanceof ParkingError && error.kind === 'unsupported') return undefined;
      throw error;
    }
  }

  /**
   * Launches the instance of the record's generation with the kept disk. Resolves when its agent answers, and has got what
   * `prepare` gives it. Idempotent.
   */
  async boot(sandbox: SandboxRecord, prepare: Prepare): Promise<Instance> {
    const { id, orgId, generation, templateVersionId, diskGeneration, env } = sandbox;
    if (diskGeneration === undefined) throw new ParkingError('not_found', `no disk of ${id} is kept`);
    using limit = new Deadline(BOOT_MS);
    const source = { kind: 'parked', templateVersionId, generation: diskGeneration } as const;
    const spec = { ...toLaunchSpec(sandbox), source };
    try {
      const { instance } = await this.#driver.launch(id, generation, spec, limit.signal, { owner: orgId });
      const agent = await this.#connections.get(instance, limit.signal);
      if (Object.keys(env).length > 0) await agent.setEnvironment(env, limit.signal);
      await prepare(agent, limit.signal);
      return instance;
    } catch (error) {
      if (limit.endedBy === undefined) throw error;
      throw new LaunchError('unreachable', `the sandbox was not ready within ${BOOT_MS} ms`, { cause: error });
    }
  }

  /** Ends an instance of which no record will be written. */
  async stop({ id, generation, instance }: SandboxRecord): Promise<void> {
    if (instance) this.#connections.close(instance);
    await this.#driver.stop(id, generation);
  }

  /** Returns the disks that hosts keep. Rejects when one does not answer. */
  async list(): Promise<readonly ParkedDisk[]> {
    return await inTime(ASK_MS, (signal) => this.#parking.parked(signal));
  }

  /** Returns the latest disk that is kept of a sandbox. Rejects when its host does not answer. */
  async find({ id, generation }: SandboxRecord): Promise<ParkedDisk | undefined> {
    if (!this.isSupported) return undefined;
    const ofIt = (await this.list()).filter((disk) => disk.sandboxId === id && disk.generation <= generation);
    return ofIt.sort((one, other) => other.generation - one.generation)[0];
  }

  async removeDisk(disk: InstanceName): Promise<void> {
    await inTime(ASK_MS, (signal) => this.#parking.removeParked(disk, signal));
  }

  /**
   * Begins to remove the disks of a sandbox that has ended, which wait for the end of its instance. What fails is left to
   * the sweep.
   */
  beginRemoval(ended: SandboxRecord): void {
    const removal = this.remove(ended)
      .catch((err) =>
        this.#log.warn({ err, sandboxId: ended.id }, 'the disk of an ended sandbox could not be removed yet'),
      )
      .finally(() => this.#removals.delete(removal));
    this.#removals.add(removal);
  }

  /** Resolves when the removals that have begun are over. */
  async settled(): Promise<void> {
    await Promise.all(this.#removals);
  }

  /** Removes the disks that may be kept of a sandbox, except from an instance that uses one. Idempotent. */
  async remove({ id, generation, diskGeneration }: SandboxRecord): Promise<void> {
    if (!this.isSupported) return;
    for (const each of new Set([generation, diskGeneration ?? generation])) {
      await this.removeDisk({ sandboxId: id, generation: each });
    }
  }

  get #parking(): Parking {
    const { parking } = this.#driver;
    if (!parking) throw new ParkingError('unsupported', 'the runtime keeps no disks');
    return parking;
  }
}

/** Returns whether a park has failed in a way after which the instance is known to go on. */
export function leftAlive(error: unknown): boolean {
  return error instanceof ParkingError || (error instanceof LaunchError && error.kind === 'failed');
}

/** Returns whether a sandbox goes on with its files after a restart of its host, though it was not paused. */
export function outlivesHost({ name, pause }: SandboxRecord): boolean {
  return name !== undefined || pause.onExpiry;
}

export function isGone(error: unknown): boolean {
  return error instanceof AgentError && error.kind === 'gone';
}

function nameOf({ id, generation }: SandboxRecord) {
  return { sandboxId: id, generation };
}
