import type { CommandId } from '@cloche/contract';

/** Commands whose record may be there before their agent knows them. */
export class StartingCommands {
  readonly #ids = new Set<CommandId>();

  /** Dispose it when the agent has answered. */
  begin(id: CommandId): Disposable {
    this.#ids.add(id);
    return { [Symbol.dispose]: () => void this.#ids.delete(id) };
  }

  has(id: CommandId): boolean {
    return this.#ids.has(id);
  }
}
