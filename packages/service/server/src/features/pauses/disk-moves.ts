import type { Logger } from 'pino';
import type { AuditLog } from '../../platform/audit-log/audit-log.ts';
import type { Clock } from '../../platform/base/clock.ts';
import { type Audited, UNAUDITED } from '../../platform/call/call.ts';
import type { LiveServers } from '../../platform/db/live-servers.ts';
import type { Transaction } from '../../platform/db/transactions.ts';
import type { Executions } from '../sandbox-records/executions.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { MoveChange, SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import { factsOf, stateOf } from '../sandbox-status/status-facts.ts';
import type { CatchUp } from './freeze-moves.ts';
import type { Freezer } from './freezer.ts';
import { isGone, type KeptDisks, leftAlive, outlivesHost } from './kept-disks.ts';
import type { MakeRoom } from './make-room.ts';
import { explainedMove, moveAudit, NOT_PAUSED_YET, stillRunning } from './move-support.ts';
import type { Pausing, Waking } from './pause-moves.ts';
import { pauseFrom } from './retention.ts';

export interface DiskMovesDeps {
  readonly sandboxes: SandboxRepository;
  readonly disks: KeptDisks;
  readonly makeRoom: Pick<MakeRoom, 'for'>;
  readonly freezer: Freezer;
  readonly auditLog: Pick<AuditLog, 'append'>;
  readonly executions: Executions;
  readonly servers: LiveServers;
  /** Destroys a sandbox whose instance and disk are gone, unless its record has changed. */
  readonly destroyLost: (sandbox: SandboxRecord) => Promise<unknown>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Ends the processes' records of a sandbox whose memory is lost, in the transaction of the move. */
export type OnMemoryLost = (sandbox: SandboxRecord, at: number, tx: Transaction) => Promise<void>;

/** Begins the start command of a sandbox that is ready with a new memory. */
export type OnReady = (record: SandboxRecord) => void;

/**
 * Moves sandboxes to their files alone, and boots them from these. The moves have begun: their records say what is meant.
 * A park goes on until the host says that the instance lives, because an interrupted one may have ended it.
 */
export class DiskMoves {
  readonly #deps: DiskMovesDeps;
  readonly #onLost: OnMemoryLost[] = [];
  #onReady: OnReady | undefined;
  #onBoot: CatchUp = async () => undefined;

  constructor(deps: DiskMovesDeps) {
    this.#deps = deps;
  }

  /** Registers what ends with the memory of a sandbox. Call it before the first request. */
  onMemoryLost(end: OnMemoryLost): void {
    this.#onLost.push(end);
  }

  /** Registers what an agent gets at each boot, before the first request. Call it before the first request. */
  onBoot(prepare: CatchUp): void {
    this.#onBoot = prepare;
  }

  /** Registers what begins after each boot. Call it before the first request. */
  onReady(begin: OnReady): void {
    this.#onReady = begin;
  }

  /** Ends the instance of a sandbox that is `parking`. Returns undefined if it is not idle any more. @throws AppError */
  async park(call: Audited, begun: SandboxRecord, pausing: Pausing): Promise<SandboxRecord | undefined> {
    const { freezer, clock } = this.#deps;
    const { by, idle, retainMs } = pausing;
    try {
      const busy = await freezer.closeGate(begun, pausing);
      if (busy) throw stillRunning(begun, busy.running);
    } catch (error) {
      await this.#goOn(begun);
      throw explainedMove(begun, error);
    }
    if (idle && !(await idle.isStill())) {
      await this.#goOn(begun);
      return undefined;
    }
    const audited = moveAudit(this.#deps, begun, 'sandbox.paused', { by, call });
    return this.#toDisk(begun, pauseFrom(clock.now(), retainMs), audited);
  }

  /** Ends the frozen instance of a sandbox that is `dropping`. @throws AppError; its memory may be kept then */
  drop(begun: SandboxRecord): Promise<SandboxRecord | undefined> {
    return this.#toDisk(begun, {}, UNAUDITED);
  }

  /** Launches a sandbox that is `booting`. @throws AppError; its files are as they were then */
  async boot(call: Audited, begun: SandboxRecord, { by, ttlMs }: Waking): Promise<SandboxRecord | undefined> {
    const { sandboxes, disks, makeRoom, executions, clock, log } = this.#deps;
    try {
      const instance = await makeRoom.for(() =>
        disks.boot(begun, (agent, signal) => this.#onBoot(begun, agent, signal)),
      );
      const { lostReason = 'asked', pause } = begun;
      const resumed = { at: clock.now(), by, ttlMs: ttlMs ?? pause.wakeTtlMs, lostReason };
      const audited = moveAudit(this.#deps, begun, 'sandbox.resumed', { by, call });
      const awake = await sandboxes.move(begun, 'finishBoot', { resumed, instance }, audited);
      if (!awake) {
        await this.#leave(begun);
        return undefined;
      }
      executions.touch(begun.id);
      this.#onReady?.(awake);
      return awake;
    } catch (error) {
      log.warn({ err: error, sandboxId: begun.id }, 'a sandbox could not be booted from its files; it stays paused');
      if (!(await this.#stayParked(begun))) return undefined;
      throw explainedMove(begun, error);
    }
  }

  /**
   * Keeps a sandbox by its files whose instance is lost: one that is paused, or that outlives its host. Returns false if its
   * files are not kept. Rejects when its host does not answer.
   */
  async lose(record: SandboxRecord): Promise<boolean> {
    const { sandboxes, disks, executions, clock, log } = this.#deps;
    const { isShownPaused, needsWake } = factsOf(record);
    if (!needsWake && !outlivesHost(record)) return false;
    const disk = await disks.find(record);
    if (!disk) return false;
    const at = clock.now();
    const paused = isShownPaused ? {} : pauseFrom(at, record.pause.retainMs);
    const lost = { pausedBy: 'host', lostReason: 'host', diskGeneration: disk.generation } as const;
    const change = { ...paused, ...lost, alongside: this.#ending(record, at) };
    const audited = moveAudit(this.#deps, record, 'sandbox.paused', { by: 'host' });
    const move = isShownPaused ? 'loseMemory' : 'loseInstance';
    if (!(await sandboxes.move(record, move, change, audited))) return true;
    log.warn({ sandboxId: record.id }, 'an instance was lost; its sandbox is paused with its files');
    executions.cancelSandbox(record.id);
    // A process that is left would use the disk.
    await disks
      .stop(record)
      .catch((err) => log.warn({ err, sandboxId: record.id }, 'an instance could not be stopped yet'));
    return true;
  }

  /** Goes on with the move of a server that has ended. @throws AppError; it can be tried again */
  async settle(own: SandboxRecord): Promise<void> {
    const { clock } = this.#deps;
    switch (stateOf(own)) {
      case 'booting':
        await this.boot(UNAUDITED, own, { by: 'operation' });
        break;
      case 'dropping':
        await this.drop(own);
        break;
      default: {
        const audited = moveAudit(this.#deps, own, 'sandbox.paused', { by: own.pausedBy });
        await this.#toDisk(own, pauseFrom(clock.now(), own.pause.retainMs), audited);
      }
    }
  }

  async #toDisk(begun: SandboxRecord, change: MoveChange, audited: Audited): Promise<SandboxRecord | undefined> {
    const { sandboxes, disks, clock, destroyLost, log } = this.#deps;
    const parked = await disks.park(begun).catch(async (error: unknown) => {
      if (leftAlive(error)) await this.#goOn(begun);
      else if (isGone(error)) await destroyLost(begun);
      else log.warn({ err: error, sandboxId: begun.id }, 'it is not known yet whether the files of a sandbox are kept');
      throw explainedMove(begun, error);
    });
    const alongside = this.#ending(begun, change.pausedAt ?? clock.now());
    const kept = { ...change, use: parked.use, diskGeneration: parked.disk.generation, alongside };
    const move = stateOf(begun) === 'dropping' ? 'finishDrop' : 'finishPark';
    const moved = await sandboxes.move(begun, move, kept, audited);
    if (!moved) await this.#leave(begun);
    return moved;
  }

  /** Returns what ends everything that the memory held. */
  #ending(sandbox: SandboxRecord, at: number) {
    return async (tx: Transaction) => {
      for (const end of this.#onLost) await end(sandbox, at, tx);
    };
  }

  /** Gives up a move whose instance goes on. What fails is left to a later pass. */
  async #goOn(begun: SandboxRecord): Promise<void> {
    const { sandboxes, freezer, servers, log } = this.#deps;
    try {
      // From now on no statement of this move takes effect that the database has got and not answered.
      const own = await sandboxes.move(begun, 'takeOver', { owner: servers.own });
      if (!own) return;
      if (stateOf(own) === 'dropping') await sandboxes.move(own, 'cancelDrop', { lostReason: null });
      else {
        await freezer.thaw(own).catch((error) => {
          log.warn({ err: error, sandboxId: own.id }, 'the gate of an agent opens by itself');
        });
        await sandboxes.move(own, 'cancelPark', NOT_PAUSED_YET);
      }
    } catch (error) {
      log.warn({ err: error, sandboxId: begun.id }, 'a pause that was given up could not be undone yet');
    }
  }

  /** Ends what a failed boot may have launched, and keeps the files. Returns false if the record has changed meanwhile. */
  async #stayParked(begun: SandboxRecord): Promise<boolean> {
    const { sandboxes, disks, servers, log } = this.#deps;
    try {
      const own = await sandboxes.move(begun, 'takeOver', { owner: servers.own });
      if (!own) {
        await this.#leave(begun);
        return false;
      }
      // An instance that is left is no part of a parked sandbox, so that the reconciler stops it.
      await disks
        .stop(own)
        .catch((err) => log.warn({ err, sandboxId: own.id }, 'an instance could not be stopped yet'));
      await sandboxes.move(own, 'cancelBoot');
    } catch (error) {
      log.warn({ err: error, sandboxId: begun.id }, 'a boot that was given up could not be undone yet');
    }
    return true;
  }

  /** Removes what a move made of a sandbox that has ended meanwhile. Another server has taken over any other. */
  async #leave({ id, generation }: SandboxRecord): Promise<void> {
    const { sandboxes, disks, log } = this.#deps;
    const now = await sandboxes.find(id);
    if (!now || !factsOf(now).isOver) return;
    const ended = { ...now, generation };
    try {
      await disks.stop(ended);
      await disks.remove(ended);
    } catch (err) {
      log.warn({ err, sandboxId: id }, 'a sandbox that has ended could not be removed yet');
    }
  }
}
