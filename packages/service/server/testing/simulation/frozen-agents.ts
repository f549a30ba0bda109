/** Agents of frozen instances, which answer when they are thawed, or not at all if their instance ends. */
import type { Freezing, InstanceName } from '@cloche/runtime';
import type { FakeRuntimeDriver } from '@cloche/testkit';

export class FrozenAgents implements Freezing {
  readonly #runtime: FakeRuntimeDriver;
  #changed = Promise.withResolvers<void>();

  constructor(runtime: FakeRuntimeDriver) {
    this.#runtime = runtime;
  }

  async freeze(name: InstanceName, signal: AbortSignal): Promise<void> {
    await this.#runtime.freezing?.freeze(name, signal);
  }

  async thaw(name: InstanceName, signal: AbortSignal): Promise<void> {
    await this.#runtime.freezing?.thaw(name, signal);
    this.look();
  }

  isFrozen({ sandboxId, generation }: InstanceName): boolean {
    const isIt = (each: InstanceName) => each.sandboxId === sandboxId && each.generation === generation;
    return this.#runtime.instances().find(isIt)?.isFrozen === true;
  }

  /** Lets the agents answer whose instances are not frozen any more. Call it after each end of an instance. */
  look(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  /** Performs `act` when the instance is not frozen: a request waits in the agent's socket, also if its server ends. */
  async whenThawed<T>(name: InstanceName, act: () => T | Promise<T>): Promise<T> {
    while (this.isFrozen(name)) await this.#changed.promise;
    return act();
  }
}
