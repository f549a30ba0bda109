import type { LaunchSpec } from '@cloche/protocol';
import {
  AgentError,
  type Instance,
  type InstanceName,
  type InstanceUse,
  LaunchError,
  type Parked,
  type ParkedDisk,
  type Parking,
  ParkingError,
} from '@cloche/runtime';
import type { FakeAgent } from './fake-agent.ts';
import type { FakeDisk } from './fake-disk.ts';

/** A live instance of a fake driver. */
export interface FakeInstance {
  readonly instance: Instance & { isFrozen?: true };
  readonly spec: LaunchSpec;
  /** Usage of the instance; tests add to it with `spend`. */
  readonly use: { -readonly [Field in keyof InstanceUse]: InstanceUse[Field] };
  readonly agent: FakeAgent;
}

interface KeptDisk {
  readonly parked: ParkedDisk;
  readonly disk: FakeDisk;
}

/** Keeps the disks of the instances of a fake driver in memory. */
export class FakeParking implements Parking {
  /** Ids of sandboxes whose kept disks are damaged. */
  readonly broken = new Set<string>();
  readonly #instances: Map<string, FakeInstance>;
  readonly #requireUp: () => void;
  readonly #kept = new Map<string, KeptDisk>();

  /**
   * @param instances the live instances, by sandbox and generation
   * @param requireUp throws if the host does not answer
   */
  constructor(instances: Map<string, FakeInstance>, requireUp: () => void) {
    this.#instances = instances;
    this.#requireUp = requireUp;
  }

  async keep(name: InstanceName): Promise<ParkedDisk> {
    this.#requireUp();
    const live = this.#instances.get(keyOf(name));
    if (!live) throw new AgentError('gone', `no instance of ${name.sandboxId}`);
    return this.#keep(live).parked;
  }

  async park(name: InstanceName): Promise<Parked> {
    this.#requireUp();
    const live = this.#instances.get(keyOf(name));
    if (live) {
      const { parked } = this.#keep(live);
      live.agent.kill();
      this.#instances.delete(keyOf(name));
      return { disk: parked, use: { ...live.use } };
    }
    const kept = this.#kept.get(keyOf(name));
    if (!kept) throw new AgentError('gone', `no instance of ${name.sandboxId}`);
    return { disk: kept.parked };
  }

  async parked(): Promise<readonly ParkedDisk[]> {
    this.#requireUp();
    return [...this.#kept.values()].map(({ parked }) => parked);
  }

  async removeParked(name: InstanceName): Promise<void> {
    this.#requireUp();
    this.#kept.delete(keyOf(name));
  }

  /** Returns whether a disk is kept. */
  has(sandboxId: unknown, generation: unknown): boolean {
    return this.#kept.has(`${sandboxId}/${generation}`);
  }

  /** Returns the disk for a launch; undefined where it gets a fresh one. Throws `ParkingError`, `LaunchError`. */
  diskFor({ sandboxId, generation }: InstanceName, { source, resources }: LaunchSpec): FakeDisk | undefined {
    if (source.kind === 'template') return undefined;
    const kept = this.#kept.get(keyOf({ sandboxId, generation: source.generation }));
    if (source.generation >= generation) throw new LaunchError('failed', 'the disk belongs to a later generation');
    if (!kept) throw new ParkingError('not_found', `no disk of ${sandboxId}`);
    const { templateVersionId, diskBytes } = kept.parked;
    if (templateVersionId !== source.templateVersionId || diskBytes !== resources.diskBytes)
      throw new LaunchError('failed', 'the disk is another one');
    if ([...this.#instances.values()].some(({ instance }) => instance.sandboxId === sandboxId))
      throw new ParkingError('in_use', 'another instance has the disk');
    if (this.broken.has(sandboxId)) throw new ParkingError('broken', 'the disk could not be mended');
    return kept.disk;
  }

  #keep({ instance, spec, agent }: FakeInstance): KeptDisk {
    const { sandboxId, generation, templateVersionId } = instance;
    const { diskBytes } = spec.resources;
    const bytes = [...agent.disk.files.values()].reduce((sum, file) => sum + file.bytes.length, 4096);
    const parked = { sandboxId, generation, templateVersionId, diskBytes, bytes, keptAt: new Date().toISOString() };
    const kept = { parked, disk: agent.disk };
    for (const [key, older] of this.#kept) if (older.disk === agent.disk) this.#kept.delete(key);
    this.#kept.set(keyOf(instance), kept);
    return kept;
  }
}

function keyOf({ sandboxId, generation }: InstanceName): string {
  return `${sandboxId}/${generation}`;
}
