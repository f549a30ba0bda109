import { LaunchError } from '@cloche/runtime';
import type { Logger } from 'pino';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import type { MovesUnderWay } from './moves-under-way.ts';
import type { PauseMoves } from './pause-moves.ts';
import type { PauseSupport } from './pause-support.ts';

export interface MakeRoomDeps {
  readonly sandboxes: Pick<SandboxRepository, 'findLongestPaused'>;
  readonly moves: Pick<PauseMoves, 'drop'>;
  readonly underWay: Pick<MovesUnderWay, 'has'>;
  readonly support: Pick<PauseSupport, 'ofFiles'>;
  readonly log: Logger;
}

/**
 * Makes room for launches and wakes: drops the memory of paused sandboxes whose pauses prefer it while there is room, the
 * longest paused first.
 */
export class MakeRoom {
  readonly #deps: MakeRoomDeps;
  #last: Promise<unknown> = Promise.resolve();

  constructor(deps: MakeRoomDeps) {
    this.#deps = deps;
  }

  /** Runs `act` until its host has room for it, or no memory is left to drop. Throws its last error, and when aborted. */
  async for<T>(act: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (;;) {
      try {
        return await act();
      } catch (error) {
        if (!(error instanceof LaunchError && error.kind === 'no_capacity')) throw error;
        if (signal?.aborted || !(await this.#dropNext())) throw error;
      }
    }
  }

  /** Drops the memory of one sandbox at a time, so that no more is dropped than is needed. */
  #dropNext(): Promise<boolean> {
    const dropped = this.#last.then(() => this.#drop());
    this.#last = dropped;
    return dropped;
  }

  async #drop(): Promise<boolean> {
    const { sandboxes, moves, underWay, support, log } = this.#deps;
    try {
      if (!(await support.ofFiles())) return false;
      const paused = await sandboxes.findLongestPaused();
      if (!paused) return false;
      // Its move may wait for room itself.
      if (underWay.has(paused.id)) return true;
      log.info({ sandboxId: paused.id }, 'the memory of a paused sandbox is dropped, because its host has no room');
      await moves.drop(paused, 'room');
      return true;
    } catch (error) {
      log.warn({ err: error }, 'no room could be made');
      return false;
    }
  }
}
