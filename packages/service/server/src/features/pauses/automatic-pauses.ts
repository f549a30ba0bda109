import type { ErrorDetails, SandboxId } from '@cloche/contract';
import type { Logger } from 'pino';
import { AppError } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import { UNAUDITED } from '../../platform/call/call.ts';
import type { Executions } from '../sandbox-records/executions.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { PauseMoves } from './pause-moves.ts';

/** Time until a pause that was refused or has failed is tried again. */
const RETRY_MS = 2_000;

export interface AutomaticPausesDeps {
  readonly moves: Pick<PauseMoves, 'pause' | 'settle'>;
  readonly executions: Executions;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Pauses sandboxes as their policies say. One server pauses a sandbox, however many try. */
export class AutomaticPauses {
  readonly #deps: AutomaticPausesDeps;
  readonly #retryAt = new Map<SandboxId, number>();

  constructor(deps: AutomaticPausesDeps) {
    this.#deps = deps;
  }

  /** Whether a pause of the sandbox was refused or has failed a moment ago. */
  waits({ id }: SandboxRecord): boolean {
    return (this.#retryAt.get(id) ?? Number.NEGATIVE_INFINITY) > this.#deps.clock.now();
  }

  /** Forgets the sandboxes whose pauses can be tried again. */
  tidy(): void {
    const now = this.#deps.clock.now();
    for (const [id, at] of this.#retryAt) if (at <= now) this.#retryAt.delete(id);
  }

  /**
   * Pauses a sandbox that nothing uses. Leaves it alone if a request uses it.
   *
   * @param isStill whether nothing has used it since
   */
  async whenIdle(ready: SandboxRecord, isStill: () => Promise<boolean>): Promise<void> {
    const { moves, clock } = this.#deps;
    const { retainMs, memory } = ready.pause;
    await this.#attempt(ready, () =>
      moves.pause(UNAUDITED, ready, { by: 'idle', memory, force: false, retainMs, idle: { at: clock.now(), isStill } }),
    );
  }

  /** Pauses a sandbox whose lifetime is over. Resolves with false if it cannot be paused, now or later. */
  async atExpiry(ready: SandboxRecord): Promise<boolean> {
    const { retainMs, memory } = ready.pause;
    const pause = () => this.#deps.moves.pause(UNAUDITED, ready, { by: 'expiry', memory, force: true, retainMs });
    return !isImpossible(await this.#attempt(ready, pause));
  }

  /** Finishes a pause or a wake that its server has left. */
  async settle(moving: SandboxRecord): Promise<void> {
    await this.#attempt(moving, () => this.#deps.moves.settle(moving));
  }

  /** Returns the error, after which the next attempt waits. */
  async #attempt(record: SandboxRecord, act: () => Promise<unknown>): Promise<unknown> {
    const { executions, clock, log } = this.#deps;
    try {
      await act();
      return undefined;
    } catch (error) {
      this.#retryAt.set(record.id, clock.now() + RETRY_MS);
      const isRunning = conflictOf(error)?.running !== undefined;
      // Another server's work, which it has not written down yet.
      if (isRunning) executions.touch(record.id);
      else if (!isRefusedByQuota(error)) {
        log.warn({ err: error, sandboxId: record.id }, 'a sandbox could not be paused by itself yet');
      }
      return error;
    }
  }
}

function isImpossible(error: unknown): boolean {
  return conflictOf(error)?.reason === 'memory_unsupported';
}

function conflictOf(error: unknown): ErrorDetails<'conflict'> | undefined {
  // Sound: the details belong to the code.
  return error instanceof AppError && error.code === 'conflict'
    ? (error.details as ErrorDetails<'conflict'>)
    : undefined;
}

function isRefusedByQuota(error: unknown): boolean {
  return error instanceof AppError && error.code === 'quota_exceeded';
}
