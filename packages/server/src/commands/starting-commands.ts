import type { CommandId } from '@cloche/contract';

/** Commands that may have a record before their agent knows them. */
export class StartingCommands {
  readonly #ids = new Set<CommandId>();

  /** Marks a command as starting. The caller disposes the result when the agent has answered. */
  begin(id: CommandId): Disposable {
    this.#ids.add(id);
    return { [Symbol.dispose]: () => void this.#ids.delete(id) };
  }

  has(id: CommandId): boolean {
    return this.#ids.has(id);
  }
}
