import type { LostReason, MemoryMode, PauseCause, SandboxId, WakeCause } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import type { AgentClient } from '@cloche/runtime';
import type { Logger } from 'pino';
import type { AuditLog } from '../../platform/audit-log/audit-log.ts';
import type { Clock } from '../../platform/base/clock.ts';
import { type Audited, UNAUDITED } from '../../platform/call/call.ts';
import type { LiveServers } from '../../platform/db/live-servers.ts';
import type { Executions } from '../sandbox-records/executions.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import { factsOf, stateOf } from '../sandbox-status/status-facts.ts';
import type { BeginMove } from './begin-move.ts';
import type { DiskMoves } from './disk-moves.ts';
import type { Freezer } from './freezer.ts';
import { isGone, type KeptDisks } from './kept-disks.ts';
import type { MakeRoom } from './make-room.ts';
import { explainedMove, moveAudit, stillRunning } from './move-support.ts';
import type { MovesUnderWay } from './moves-under-way.ts';
import type { PauseMetrics } from './pause-metrics.ts';
import { retentionFrom } from './retention.ts';

/** Time for the changes that were put off until the wake. */
const CATCH_UP_MS = 5_000;

/** Makes the changes that were recorded while the sandbox was paused, in its agent. Idempotent. */
export type CatchUp = (sandbox: SandboxRecord, agent: AgentClient, signal: AbortSignal) => Promise<void>;

export interface PauseMovesDeps {
  readonly sandboxes: SandboxRepository;
  readonly freezer: Freezer;
  readonly diskMoves: DiskMoves;
  readonly makeRoom: Pick<MakeRoom, 'for'>;
  readonly disks: Pick<KeptDisks, 'keep'>;
  readonly underWay: MovesUnderWay;
  readonly metrics: PauseMetrics;
  readonly beginMove: BeginMove;
  readonly auditLog: Pick<AuditLog, 'append'>;
  readonly executions: Executions;
  readonly servers: LiveServers;
  /** Checks a sandbox that could not be woken, and destroys it if its instance is lost. */
  readonly checkOn: (sandboxId: string) => void;
  readonly clock: Clock;
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
  readonly #catchUps: CatchUp[] = [];
  /** Paused sandboxes whose instances may go on, because their wakes were given up while the host was away. */
  readonly #strays = new Set<SandboxId>();

  constructor(deps: PauseMovesDeps) {
    this.#deps = deps;
  }

  /** Registers changes to make at each wake. Call it before the first request. */
  onWake(catchUp: CatchUp): void {
    this.#catchUps.push(catchUp);
  }

  /**
   * Pauses a ready sandbox. Returns undefined if the record changed meanwhile, or if it is not idle any more.
   *
   * @throws AppError
   */
  async pause(call: Audited, ready: SandboxRecord, pausing: Pausing): Promise<SandboxRecord | undefined> {
    const { beginMove, diskMoves, underWay, metrics } = this.#deps;
    const { by, memory, idle } = pausing;
    const perform = async () => {
      const begun = await beginMove.pause(ready, { by, memory, ...(idle && { idleAt: idle.at }) });
      if (!begun) return undefined;
      return memory === 'drop' ? diskMoves.park(call, begun, pausing) : this.#freeze(call, begun, pausing);
    };
    return underWay.perform(ready.id, () => metrics.pause(by, perform));
  }

  /** Wakes a paused sandbox. Returns undefined if the record changed meanwhile. @throws AppError; it stays paused then */
  async wake(call: Audited, paused: SandboxRecord, waking: Waking): Promise<SandboxRecord | undefined> {
    const { beginMove, diskMoves, underWay, metrics } = this.#deps;
    const isOnDisk = factsOf(paused).hasLostMemory;
    const perform = async () => {
      const begun = await beginMove.wake(paused);
      if (!begun) return undefined;
      return isOnDisk ? diskMoves.boot(call, begun, waking) : this.#thaw(call, begun, waking);
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
   * on it. @throws AppError; it can be tried again
   */
  async settle(record: SandboxRecord): Promise<boolean> {
    const { underWay, sandboxes, diskMoves, servers, metrics, log } = this.#deps;
    if (!factsOf(record).isMoving || !(await underWay.isAbandoned(record))) return false;
    await underWay.perform(record.id, async () => {
      const own = await sandboxes.move(record, 'takeOver', { owner: servers.own });
      if (!own) return;
      log.info({ sandboxId: record.id, state: record.pauseState }, 'the pause or wake of another server is taken over');
      const waking = { by: 'operation' } as const;
      if (stateOf(own) === 'waking') await metrics.wake('memory', waking.by, () => this.#thaw(UNAUDITED, own, waking));
      else if (stateOf(own) === 'pausing') {
        await metrics.pause(own.pausedBy ?? 'request', () => this.#finishPause(own));
      } else await diskMoves.settle(own);
    });
    return true;
  }

  /** Settles the moves among `records` that servers have left. One that fails is left to the next call. */
  async settleOf(records: readonly SandboxRecord[]): Promise<void> {
    for (const record of records.filter((one) => factsOf(one).isMoving)) {
      await this.settle(record).catch((error) => {
        this.#deps.log.warn({ err: error, sandboxId: record.id }, 'a pause or wake could not be taken over yet');
      });
    }
  }

  /** Keeps a sandbox paused that another server has frozen; gives up a pause that has frozen nothing yet. */
  async #finishPause(own: SandboxRecord): Promise<SandboxRecord | undefined> {
    const { sandboxes, freezer, disks, clock } = this.#deps;
    let diskGeneration: number | undefined;
    try {
      if (!(await freezer.isFrozen(own))) {
        await this.#undo(own, 'cancelPause');
        return undefined;
      }
      diskGeneration = await disks.keep(own);
    } catch (error) {
      throw explainedMove(own, error);
    }
    const pausedAt = clock.now();
    const audited = moveAudit(this.#deps, own, 'sandbox.paused', own.pausedBy);
    const kept = diskGeneration === undefined ? {} : { diskGeneration };
    const change = { pausedAt, ...retentionFrom(pausedAt, own.pause.retainMs), ...kept };
    return sandboxes.move(own, 'finishPause', change, audited);
  }

  /** Keeps a sandbox by its files whose instance is lost. Returns false if it cannot be. Rejects as `DiskMoves.lose`. */
  async lose(record: SandboxRecord): Promise<boolean> {
    const { diskMoves, underWay } = this.#deps;
    return (await underWay.perform(record.id, () => diskMoves.lose(record))) ?? true;
  }

  /** Thaws the instance of a sandbox that is not paused: a server has frozen it after its record was taken over. */
  async thawStray(ready: SandboxRecord): Promise<void> {
    const { underWay, sandboxes, servers } = this.#deps;
    if (ready.pauseToken === undefined) return;
    await underWay.perform(ready.id, async () => {
      const own = await sandboxes.move(ready, 'beginPause', { owner: servers.own });
      if (own) await this.#undo(own, 'cancelPause');
    });
  }

  /** Freezes the instance of a sandbox that is paused, if it goes on. */
  async freezeStray(paused: SandboxRecord): Promise<void> {
    const { underWay, sandboxes, servers } = this.#deps;
    await underWay.perform(paused.id, async () => {
      const own = await sandboxes.move(paused, 'beginWake', { owner: servers.own });
      if (own) await this.#undo(own, 'cancelWake');
    });
  }

  /** Freezes the instances that this server could not freeze when it gave up their wakes. */
  async freezeStrays(): Promise<void> {
    for (const id of [...this.#strays]) {
      const record = await this.#deps.sandboxes.find(id);
      this.#strays.delete(id);
      if (record && stateOf(record) === 'paused') await this.freezeStray(record);
    }
  }

  async #freeze(call: Audited, begun: SandboxRecord, pausing: Pausing): Promise<SandboxRecord | undefined> {
    const { sandboxes, freezer, disks, clock } = this.#deps;
    const { by, idle, retainMs } = pausing;
    let diskGeneration: number | undefined;
    try {
      const busy = await freezer.closeGate(begun, pausing);
      if (busy) throw stillRunning(begun, busy.running);
      // A request that arrived since, or that another server has not written down in time, wins.
      if (idle && !(await idle.isStill())) {
        await this.#undo(begun, 'cancelPause');
        return undefined;
      }
      await freezer.freeze(begun);
      // Before the record says that it is paused, so that a host that loses power then loses its memory alone.
      diskGeneration = await disks.keep(begun);
    } catch (error) {
      if (!(await this.#undo(begun, 'cancelPause'))) return undefined;
      throw explainedMove(begun, error);
    }
    const pausedAt = clock.now();
    const kept = diskGeneration === undefined ? {} : { diskGeneration };
    const change = { pausedAt, ...retentionFrom(pausedAt, retainMs), ...kept, use: await freezer.useOf(begun) };
    const audited = by === 'request' ? call : moveAudit(this.#deps, begun, 'sandbox.paused', by);
    try {
      const paused = await sandboxes.move(begun, 'finishPause', change, audited);
      if (!paused) await this.#align(begun.id);
      return paused;
    } catch (error) {
      await this.#undo(begun, 'cancelPause');
      throw error;
    }
  }

  async #thaw(call: Audited, begun: SandboxRecord, { by, ttlMs }: Waking): Promise<SandboxRecord | undefined> {
    const { sandboxes, freezer, makeRoom, executions, checkOn, clock, log } = this.#deps;
    try {
      await this.#catchUp(begun, await makeRoom.for(() => freezer.thaw(begun)));
      const resumed = { at: clock.now(), by, ttlMs: ttlMs ?? begun.pause.wakeTtlMs };
      const audited = by === 'request' ? call : moveAudit(this.#deps, begun, 'sandbox.resumed');
      const awake = await sandboxes.move(begun, 'finishWake', { resumed }, audited);
      // The idle timeout counts from the wake.
      if (awake) executions.touch(begun.id);
      else await this.#align(begun.id);
      return awake;
    } catch (error) {
      log.warn({ err: error, sandboxId: begun.id }, 'a sandbox could not be woken; it stays paused');
      if (!(await this.#undo(begun, 'cancelWake'))) return undefined;
      if (isGone(error) && (await this.#isKeptByFiles(begun.id))) return undefined;
      checkOn(begun.id);
      throw explainedMove(begun, error);
    }
  }

  /** Keeps a paused sandbox by its files after its instance was lost, so that it can be booted. */
  async #isKeptByFiles(id: SandboxId): Promise<boolean> {
    const { sandboxes, freezer, diskMoves, log } = this.#deps;
    try {
      const paused = await sandboxes.find(id);
      if (!paused || stateOf(paused) !== 'paused' || (await freezer.lives(paused))) return false;
      return await diskMoves.lose(paused);
    } catch (error) {
      log.warn({ err: error, sandboxId: id }, 'the files of a lost instance could not be found yet');
      return false;
    }
  }

  /** Makes the changes that were put off. Best effort: an agent that refuses one must not keep its sandbox asleep. */
  async #catchUp(sandbox: SandboxRecord, agent: AgentClient): Promise<void> {
    using limit = new Deadline(CATCH_UP_MS);
    for (const catchUp of this.#catchUps) {
      await catchUp(sandbox, agent, limit.signal).catch((error) => {
        this.#deps.log.warn({ err: error, sandboxId: sandbox.id }, 'a change that waited for the wake failed');
      });
    }
  }

  /**
   * Gives a move up: changes the instance back, and then the record. What fails is left to a later pass. Returns false if
   * the record changed meanwhile, such as by a deletion.
   */
  async #undo(begun: SandboxRecord, cancel: 'cancelPause' | 'cancelWake'): Promise<boolean> {
    const { sandboxes, servers, log } = this.#deps;
    try {
      // From now on no statement of this move takes effect that the database has got and not answered.
      const own = await sandboxes.move(begun, 'takeOver', { owner: servers.own });
      if (own && !(await this.#changeBack(own, cancel))) return true;
      const change = cancel === 'cancelPause' ? { pausedBy: null } : {};
      if (own && (await sandboxes.move(own, cancel, change))) return true;
      await this.#align(begun.id);
      return false;
    } catch (error) {
      log.warn({ err: error, sandboxId: begun.id }, 'a pause or wake that was given up could not be undone yet');
      return true;
    }
  }

  /** Returns false if the record must stay as it is, because the instance is still frozen. */
  async #changeBack(own: SandboxRecord, cancel: 'cancelPause' | 'cancelWake'): Promise<boolean> {
    const { freezer, log } = this.#deps;
    try {
      await (cancel === 'cancelPause' ? freezer.thaw(own) : freezer.freeze(own));
      return true;
    } catch (error) {
      log.warn({ err: error, sandboxId: own.id }, 'an instance could not be changed back');
      if (cancel === 'cancelWake') this.#strays.add(own.id);
      return cancel === 'cancelWake' || !(await freezer.isFrozen(own).catch(() => true));
    }
  }

  /** Freezes or thaws an instance as its record says, after another server has taken a move of this one over. */
  async #align(id: SandboxId): Promise<void> {
    const { sandboxes, freezer, log } = this.#deps;
    let alignedEpoch: number | undefined;
    for (;;) {
      const record = await sandboxes.find(id);
      if (!record || record.pauseEpoch === alignedEpoch) return;
      const state = stateOf(record);
      if (state !== 'paused' && state !== 'ready') return;
      const act = state === 'paused' ? freezer.freeze(record) : freezer.thaw(record);
      await act.catch((error) => log.warn({ err: error, sandboxId: id }, 'an instance could not be aligned yet'));
      alignedEpoch = record.pauseEpoch;
    }
  }
}
