import type { CommandId } from '@cloche/contract';
import { CutOffError } from '../../platform/idempotency/held-claims.ts';

/**
 * Time after which a server no longer starts a command that it has written itself into. A server without a renewal of
 * its lease for 20 seconds starts no commands, and 10 seconds later others may count its commands as lost: these must
 * not start any more. Agents of this version refuse them too (`prevent`); agents of the previous version do not know
 * that request.
 */
const START_WITHIN_MS = 8_000;

/** The commands that may have a record before their agent has them. */
export class StartingCommands {
  readonly #stillOwns: (takenAt: number, withinMs: number) => boolean;
  readonly #ids = new Set<CommandId>();

  /** @param stillOwns whether no other server counts work as lost that this one took at most `withinMs` ago */
  constructor(stillOwns: (takenAt: number, withinMs: number) => boolean) {
    this.#stillOwns = stillOwns;
  }

  /** Marks a command as starting. The caller disposes the result when the agent has answered. */
  begin(id: CommandId): Disposable {
    this.#ids.add(id);
    return {
      [Symbol.dispose]: () => {
        this.#ids.delete(id);
      },
    };
  }

  has(id: CommandId): boolean {
    return this.#ids.has(id);
  }

  /**
   * Throws if another server may count the command as lost, for example because this process was stopped for a while.
   * Call it directly before the command's record is written, and again before the command is started.
   *
   * @param takenAt time at which this server wrote itself into the record of the command
   * @throws AppError `unavailable`
   */
  requireOwn(takenAt: number): void {
    if (!this.#stillOwns(takenAt, START_WITHIN_MS)) throw new CutOffError();
  }
}
