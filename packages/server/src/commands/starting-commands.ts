import type { CommandId } from '@cloche/contract';
import type { Clock } from '../base/clock.ts';
import { CutOffError } from '../idempotency/held-claims.ts';

/**
 * Time after which a server no longer starts a command that it has taken. A server that has not renewed its lease for 20
 * seconds takes none, and 10 seconds later others may count its commands as lost: those must not start any more. Agents
 * of this version also refuse them (`prevent`); those of the version before do not know that request.
 */
const START_WITHIN_MS = 8_000;

export interface StartingCommandsDeps {
  readonly clock: Clock;
  /** Whether the database has only this server. */
  readonly isAlone: boolean;
  /** Whether this server has lost its lease. */
  readonly isFenced: () => boolean;
}

/** Commands that may have a record before their agent knows them. */
export class StartingCommands {
  readonly #deps: StartingCommandsDeps;
  readonly #ids = new Set<CommandId>();

  constructor(deps: StartingCommandsDeps) {
    this.#deps = deps;
  }

  /** Marks a command as starting. The caller disposes the result when the agent has answered. */
  begin(id: CommandId): Disposable {
    this.#ids.add(id);
    return { [Symbol.dispose]: () => void this.#ids.delete(id) };
  }

  has(id: CommandId): boolean {
    return this.#ids.has(id);
  }

  /**
   * Throws if another server may count the command as lost, for example because this process stood still. Call it directly
   * before the command is taken, and before it is started.
   *
   * @param takenAt when this server wrote itself into the record of the command
   * @throws AppError `unavailable`
   */
  requireOwn(takenAt: number): void {
    const { clock, isAlone, isFenced } = this.#deps;
    if (!isAlone && (isFenced() || clock.now() - takenAt >= START_WITHIN_MS)) throw new CutOffError();
  }
}
