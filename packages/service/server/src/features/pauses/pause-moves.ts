import type { LostReason, MemoryMode, PauseCause, WakeCause } from '@cloche/contract';
import type { Logger } from 'pino';
import { type Audited, UNAUDITED } from '../../platform/call/call.ts';
import type { LiveServers } from '../../platform/db/live-servers.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import { factsOf, stateOf } from '../sandbox-status/status-facts.ts';
import type { BeginMove } from './begin-move.ts';
import type { DiskMoves } from './disk-moves.ts';
import type { FreezeMoves } from './freeze-moves.ts';
import type { MovesUnderWay } from './moves-under-way.ts';
import type { PauseMetrics } from './pause-metrics.ts';

export interface PauseMovesDeps {
  readonly sandboxes: SandboxRepository;
  readonly freezeMoves: FreezeMoves;
  readonly diskMoves: DiskMoves;
  readonly underWay: MovesUnderWay;
  readonly metrics: PauseMetrics;
  readonly beginMove: BeginMove;
  readonly servers: LiveServers;
  readonly log: Logger;
}

export interface Pausing {
  readonly by: PauseCause;
  readonly memory: MemoryMode;
  readonly force: boolean;
  readonly retainMs: number;
  /** For a pause by idleness: when the sandbox was found to be idle, and whether it still is. */
  readonly idle?: { readonly at: number; readonly isStill: () => Promise<boolean> };
}

export interface Waking {
  readonly by: WakeCause;
  /** Lifetime after the wake. Default: that of the policy. */
  readonly ttlMs?: number | undefined;
}

/**
 * Moves sandboxes into and out of pauses. The record says first what is meant, so that another server can finish the move
 * or give it up; then the instance is changed, then the record says that it was. A server whose record was taken over
 * meanwhile undoes what it did to the instance.
 */
export class PauseMoves {
  readonly #deps: PauseMovesDeps;

  constructor(deps: PauseMovesDeps) {
    this.#deps = deps;
  }

  /**
   * Pauses a ready sandbox. Returns undefined if the record changed meanwhile, or if it is not idle any more.
   *
   * @throws AppError
   */
  async pause(call: Audited, ready: SandboxRecord, pausing: Pausing): Promise<SandboxRecord | undefined> {
    const { beginMove, freezeMoves, diskMoves, underWay, metrics } = this.#deps;
    const { by, memory, idle } = pausing;
    const perform = async () => {
      const begun = await beginMove.pause(ready, { by, memory, ...(idle && { idleAt: idle.at }) });
      if (!begun) return undefined;
      return memory === 'drop' ? diskMoves.park(call, begun, pausing) : freezeMoves.freeze(call, begun, pausing);
    };
    return underWay.perform(ready.id, () => metrics.pause(by, perform));
  }

  /** Wakes a paused sandbox. Returns undefined if the record changed meanwhile. @throws AppError; it stays paused then */
  async wake(call: Audited, paused: SandboxRecord, waking: Waking): Promise<SandboxRecord | undefined> {
    const { beginMove, freezeMoves, diskMoves, underWay, metrics } = this.#deps;
    const isOnDisk = factsOf(paused).hasLostMemory;
    const perform = async () => {
      const begun = await beginMove.wake(paused);
      if (!begun) return undefined;
      return isOnDisk ? diskMoves.boot(call, begun, waking) : freezeMoves.thaw(call, begun, waking);
    };
    return underWay.perform(paused.id, () => metrics.wake(isOnDisk ? 'disk' : 'memory', waking.by, perform));
  }

  /** Drops the memory of a paused sandbox. Returns undefined if the record changed meanwhile. @throws AppError */
  async drop(paused: SandboxRecord, lostReason: LostReason): Promise<SandboxRecord | undefined> {
    const { sandboxes, diskMoves, servers, underWay } = this.#deps;
    return underWay.perform(paused.id, async () => {
      const begun = await sandboxes.move(paused, 'beginDrop', { owner: servers.own, lostReason });
      return begun && diskMoves.drop(begun);
    });
  }

  /**
   * Finishes the move of a server that has ended, or gives it up. Returns false, without an effect, while its server works
   * on it. A wake that was given up while its host was away is finished only `forRequest`.
   *
   * @throws AppError; it can be tried again
   */
  async settle(record: SandboxRecord, { forRequest = false } = {}): Promise<boolean> {
    const { underWay, sandboxes, servers, log } = this.#deps;
    if (!factsOf(record).isMoving || !(await underWay.isAbandoned(record))) return false;
    await underWay.perform(record.id, async () => {
      const own = await sandboxes.move(record, 'takeOver', { owner: servers.own });
      if (!own) return;
      log.info({ sandboxId: record.id, state: record.pauseState }, 'a pause or wake that was left is taken over');
      await this.#goOn(own, record.pauseOwner === undefined && !forRequest);
    });
    return true;
  }

  async #goOn(own: SandboxRecord, isGivenUp: boolean): Promise<void> {
    const { freezeMoves, diskMoves, metrics } = this.#deps;
    const waking = { by: 'operation' } as const;
    switch (stateOf(own)) {
      case 'waking':
        if (isGivenUp) await freezeMoves.undo(own, 'cancelWake');
        else await metrics.wake('memory', waking.by, () => freezeMoves.thaw(UNAUDITED, own, waking));
        break;
      case 'pausing':
        await metrics.pause(own.pausedBy ?? 'request', () => freezeMoves.finish(own));
        break;
      default:
        await diskMoves.settle(own);
    }
  }

  /** Settles the moves among `records` that servers have left. One that fails is left to the next call. */
  async settleOf(records: readonly SandboxRecord[]): Promise<void> {
    for (const record of records.filter((one) => factsOf(one).isMoving)) {
      await this.settle(record).catch((error) => {
        this.#deps.log.warn({ err: error, sandboxId: record.id }, 'a pause or wake could not be taken over yet');
      });
    }
  }

  /** Keeps a sandbox by its files whose instance is lost. Returns false if it cannot be. Rejects as `DiskMoves.lose`. */
  async lose(record: SandboxRecord): Promise<boolean> {
    const { diskMoves, underWay } = this.#deps;
    return (await underWay.perform(record.id, () => diskMoves.lose(record))) ?? true;
  }

  /** Thaws the instance of a sandbox that is not paused: a server has frozen it after its record was taken over. */
  async thawStray(ready: SandboxRecord): Promise<void> {
    const { underWay, sandboxes, freezeMoves, servers } = this.#deps;
    if (ready.pauseToken === undefined) return;
    await underWay.perform(ready.id, async () => {
      const own = await sandboxes.move(ready, 'beginPause', { owner: servers.own });
      if (own) await freezeMoves.undo(own, 'cancelPause');
    });
  }

  /** Freezes the instance of a sandbox that is paused: a server has thawed it after its record was taken over. */
  async freezeStray(paused: SandboxRecord): Promise<void> {
    const { underWay, sandboxes, freezeMoves, servers } = this.#deps;
    await underWay.perform(paused.id, async () => {
      if (await freezeMoves.isFrozen(paused)) return;
      const own = await sandboxes.move(paused, 'beginWake', { owner: servers.own });
      if (own) await freezeMoves.undo(own, 'cancelWake');
    });
  }
}
