import type { Freezer } from '../cgroups/freezer.ts';
import type { InstanceName } from '../instance/instance-key.ts';
import type { FrozenInstances } from '../memory/frozen-instances.ts';
import type { MemoryRoom } from '../memory/memory-room.ts';
import type { KernelForks } from '../zygote/kernel-forks.ts';
import type { Instances } from './instances.ts';

export interface FreezingDeps {
  instances: Pick<Instances, 'runAlone'>;
  cgroups: { freezer: Pick<Freezer, 'isFrozen'> };
  frozen: FrozenInstances;
  room: MemoryRoom;
  kernels: Pick<KernelForks, 'awaitNoSpare'>;
}

/** Freezes and thaws live instances while the machine has memory for it. */
export class Freezing {
  readonly #deps: FreezingDeps;

  constructor(deps: FreezingDeps) {
    this.#deps = deps;
  }

  /**
   * Resolves when no process of a live instance executes. Idempotent. Throws `instance_not_found`, and `freeze_failed` or
   * `no_capacity`: the instance then goes on.
   */
  async freeze(name: InstanceName): Promise<void> {
    const { instances, frozen, kernels } = this.#deps;
    await instances.runAlone(name, async (key) => {
      // A kernel that is forked into a frozen group stops before it has reported.
      kernels.awaitNoSpare(key);
      await frozen.freeze(key);
    });
  }

  /** Lets a frozen instance go on. Idempotent. Throws `instance_not_found`, and `no_capacity`: it then stays frozen. */
  async thaw(name: InstanceName): Promise<void> {
    const { instances, cgroups, frozen, room } = this.#deps;
    await instances.runAlone(name, async (key, { memoryBytes = 0 }) => {
      if (!cgroups.freezer.isFrozen(key)) return;
      using _promised = room.promise(memoryBytes);
      using _taken = await room.take(frozen.swappedBytes(key));
      frozen.thaw(key);
    });
  }
}
