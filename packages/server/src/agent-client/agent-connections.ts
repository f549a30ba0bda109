import type { AgentClient, Instance, RuntimeDriver } from '../driver/runtime-driver.ts';

/** One connection for each instance, made on first use and kept. */
export class AgentConnections {
  readonly #driver: RuntimeDriver;
  readonly #clients = new Map<string, AgentClient>();
  readonly #onBroken: (instance: Instance) => void;

  /** @param onBroken told when the last connection to an instance's agent ended by itself */
  constructor(driver: RuntimeDriver, onBroken: (instance: Instance) => void) {
    this.#driver = driver;
    this.#onBroken = onBroken;
  }

  /** The client that answered before, or one that answers now. Throws as `RuntimeDriver.connect` does. */
  get(instance: Instance, signal: AbortSignal): AgentClient | Promise<AgentClient> {
    return this.#clients.get(keyOf(instance)) ?? this.#connect(instance, signal);
  }

  /** The next use connects anew, or finds that nobody answers. */
  close(instance: Instance): void {
    const client = this.#clients.get(keyOf(instance));
    this.#clients.delete(keyOf(instance));
    // Closing only gives up local resources; what happens to the instance is decided elsewhere.
    client?.close().catch(() => undefined);
  }

  async closeAll(): Promise<void> {
    const clients = [...this.#clients.values()];
    this.#clients.clear();
    await Promise.allSettled(clients.map((client) => client.close()));
  }

  async #connect(instance: Instance, signal: AbortSignal): Promise<AgentClient> {
    const client = await this.#driver.connect(instance, signal, () => this.#onBroken(instance));
    if (signal.aborted) {
      await client.close();
      throw signal.reason;
    }
    const first = this.#clients.get(keyOf(instance));
    if (!first) {
      this.#clients.set(keyOf(instance), client);
      return client;
    }
    await client.close();
    return first;
  }
}

function keyOf({ sandboxId, generation }: Instance): string {
  return `${sandboxId}/${generation}`;
}
