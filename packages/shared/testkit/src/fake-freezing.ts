import type { Freezing, Instance, InstanceName } from '@cloche/runtime';

/** An instance of a fake driver that may be frozen. */
export interface Freezable {
  readonly instance: Instance & { isFrozen?: true };
}

/** Marks the instances of a fake driver as frozen. Their agents go on answering. */
export class FakeFreezing implements Freezing {
  readonly #liveOf: (name: InstanceName) => Freezable;

  /** @param liveOf throws `gone` for an instance that does not live */
  constructor(liveOf: (name: InstanceName) => Freezable) {
    this.#liveOf = liveOf;
  }

  async freeze(name: InstanceName): Promise<void> {
    this.#liveOf(name).instance.isFrozen = true;
  }

  async thaw(name: InstanceName): Promise<void> {
    delete this.#liveOf(name).instance.isFrozen;
  }
}
