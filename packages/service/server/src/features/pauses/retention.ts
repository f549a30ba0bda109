import { LIMITS } from '@cloche/contract';
import type { Clock } from '../../platform/base/clock.ts';
import type { MoveChange, SandboxRepository } from '../sandbox-records/sandbox-repository.ts';

/** Returns what a move sets for a retention that begins at a time. The event of its beginning announces a short one. */
export function retentionFrom(at: number, retainMs: number): Pick<MoveChange, 'expiresAt' | 'retentionNoticeAt'> {
  const expiresAt = at + retainMs;
  const isShort = retainMs <= LIMITS.retentionNoticeMs;
  return { expiresAt, retentionNoticeAt: isShort ? null : expiresAt - LIMITS.retentionNoticeMs };
}

/** Returns what a move sets for a pause that begins at a time. */
export function pauseFrom(
  at: number,
  retainMs: number,
): Pick<MoveChange, 'pausedAt' | 'expiresAt' | 'retentionNoticeAt'> {
  return { pausedAt: at, ...retentionFrom(at, retainMs) };
}

export interface RetentionNoticesDeps {
  readonly sandboxes: Pick<SandboxRepository, 'listRetentionEnding' | 'move'>;
  readonly clock: Clock;
}

/** Announces that paused sandboxes will soon be destroyed. Of several servers that do so at once, one does. */
export class RetentionNotices {
  readonly #deps: RetentionNoticesDeps;

  constructor(deps: RetentionNoticesDeps) {
    this.#deps = deps;
  }

  /** Announces what is due, some sandboxes at a time. One that changes meanwhile is left to the next pass. */
  async pass(): Promise<void> {
    const { sandboxes, clock } = this.#deps;
    for (const record of await sandboxes.listRetentionEnding(clock.now())) {
      await sandboxes.move(record, 'announceRetention', { retentionNoticeAt: null });
    }
  }
}
