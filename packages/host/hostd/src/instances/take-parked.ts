import type { KeyedQueue } from '@cloche/node-support';
import type { LaunchSpec } from '@cloche/protocol';
import { HostdError } from '../base/hostd-error.ts';
import { type InstanceKey, type InstanceName, instanceKey } from '../instance/instance-key.ts';
import type { InstanceRecords } from '../instance/instance-records.ts';
import type { ParkedDisks, TakenDisk } from '../storage/parked-disks.ts';

export interface TakeParkedDeps {
  records: InstanceRecords;
  parkedDisks: ParkedDisks;
  removeInstance: (key: InstanceKey) => Promise<void>;
}

/** Gives kept disks to launches. A disk is never mounted for two instances. */
export class TakeParked {
  readonly #deps: TakeParkedDeps;

  constructor(deps: TakeParkedDeps) {
    this.#deps = deps;
  }

  /**
   * Takes the disk that a launch names, once nothing is left of the sandbox's earlier instances. Undefined for a launch
   * with a fresh disk. Throws `bad_request`, `disk_not_found`, `disk_in_use`.
   * @param actions the actions on each instance
   */
  async take(
    name: InstanceName,
    { source, resources }: LaunchSpec,
    actions: KeyedQueue<InstanceKey>,
  ): Promise<TakenDisk | undefined> {
    if (source.kind === 'template') return undefined;
    if (source.generation >= name.generation)
      throw new HostdError('bad_request', 'the disk of a generation can only be given to a later one');
    const taken = this.#deps.parkedDisks.take({ sandboxId: name.sandboxId, generation: source.generation });
    try {
      const { templateVersionId, diskBytes } = taken.record;
      if (templateVersionId !== source.templateVersionId || diskBytes !== resources.diskBytes)
        throw new HostdError('bad_request', `the kept disk has ${diskBytes} bytes, over ${templateVersionId}`);
      await this.#removeEarlier(name, actions);
      return taken;
    } catch (error) {
      taken[Symbol.dispose]();
      throw error;
    }
  }

  async #removeEarlier({ sandboxId, generation }: InstanceName, actions: KeyedQueue<InstanceKey>): Promise<void> {
    const { records, removeInstance } = this.#deps;
    for (const key of records.keys()) {
      const other = generationOf(key, sandboxId, records);
      if (other === undefined || other === generation) continue;
      if (other > generation || records.findLive(key)) throw inUse(key);
      await actions.run(instanceKey({ sandboxId, generation: other }), async () => {
        if (records.findLive(key)) throw inUse(key);
        await removeInstance(key);
      });
    }
  }
}

/** Returns the generation of an instance of the sandbox; undefined for another sandbox's, or an unclaimed one. */
function generationOf(key: InstanceKey, sandboxId: string, records: InstanceRecords): number | undefined {
  const record = records.read(key);
  if (record && 'sandboxId' in record) return record.sandboxId === sandboxId ? record.generation : undefined;
  return key.startsWith(`${sandboxId}-`) ? Number(key.slice(sandboxId.length + 1)) : undefined;
}

function inUse(key: InstanceKey): HostdError {
  return new HostdError('disk_in_use', `the instance ${key} of the same sandbox runs`);
}
