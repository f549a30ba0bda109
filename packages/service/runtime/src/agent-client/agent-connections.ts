import type { AgentClient, Instance, Instances } from '../driver/runtime-driver.ts';

/** Keeps one client for each instance, connected on first use. */
export class AgentConnections {
  readonly #driver: Instances;
  readonly #clients = new Map<string, { readonly instance: Instance; readonly client: AgentClient }>();
  readonly #onBroken: (instance: Instance) => void;

  /** @param onBroken called when the last connection to an instance's agent ended by itself */
  constructor(driver: Instances, onBroken: (instance: Instance) => void) {
    this.#driver = driver;
    this.#onBroken = onBroken;
  }

  /** Returns the connected client of the instance, or connects one. Throws as `Instances.connect` does. */
  get(instance: Instance, signal: AbortSignal): AgentClient | Promise<AgentClient> {
    return this.#clients.get(keyOf(instance))?.client ?? this.#connect(instance, signal);
  }

  /** Returns the instances that have a client. */
  instances(): Instance[] {
    return [...this.#clients.values()].map(({ instance }) => instance);
  }

  /** Closes the client of the instance. The next `get` connects again. */
  close(instance: Instance): void {
    const client = this.#clients.get(keyOf(instance))?.client;
    this.#clients.delete(keyOf(instance));
    // Closing only frees local resources; it does not affect the instance.
    client?.close().catch(() => undefined);
  }

  async closeAll(): Promise<void> {
    const clients = [...this.#clients.values()];
    this.#clients.clear();
    await Promise.allSettled(clients.map(({ client }) => client.close()));
  }

  async #connect(instance: Instance, signal: AbortSignal): Promise<AgentClient> {
    const client = await this.#driver.connect(instance, signal, () => this.#onBroken(instance));
    if (signal.aborted) {
      await client.close();
      throw signal.reason;
    }
    const first = this.#clients.get(keyOf(instance))?.client;
    if (!first) {
      this.#clients.set(keyOf(instance), { instance, client });
      return client;
    }
    await client.close();
    return first;
  }
}

function keyOf({ sandboxId, generation }: Instance): string {
  return `${sandboxId}/${generation}`;
}
