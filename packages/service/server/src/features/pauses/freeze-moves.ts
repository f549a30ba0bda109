import type { SandboxId } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import type { AgentClient } from '@cloche/runtime';
import type { Logger } from 'pino';
import type { AuditLog } from '../../platform/audit-log/audit-log.ts';
import type { Clock } from '../../platform/base/clock.ts';
import type { Audited } from '../../platform/call/call.ts';
import type { LiveServers } from '../../platform/db/live-servers.ts';
import type { Executions } from '../sandbox-records/executions.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import { stateOf } from '../sandbox-status/status-facts.ts';
import type { DiskMoves } from './disk-moves.ts';
import type { Freezer } from './freezer.ts';
import { isGone, type KeptDisks } from './kept-disks.ts';
import type { MakeRoom } from './make-room.ts';
import { explainedMove, moveAudit, NOT_PAUSED_YET, stillRunning } from './move-support.ts';
import type { Pausing, Waking } from './pause-moves.ts';
import { pauseFrom } from './retention.ts';

/** Time for the changes that were put off until the wake. */
const CATCH_UP_MS = 5_000;

/** Makes the changes that were recorded while the sandbox was paused, in its agent. Idempotent. */
export type CatchUp = (sandbox: SandboxRecord, agent: AgentClient, signal: AbortSignal) => Promise<void>;

export interface FreezeMovesDeps {
  readonly sandboxes: SandboxRepository;
  readonly freezer: Freezer;
  readonly diskMoves: Pick<DiskMoves, 'lose'>;
  readonly disks: Pick<KeptDisks, 'keep'>;
  readonly makeRoom: Pick<MakeRoom, 'for'>;
  readonly auditLog: Pick<AuditLog, 'append'>;
  readonly executions: Executions;
  readonly servers: LiveServers;
  /** Checks a sandbox that could not be woken, and destroys it if its instance is lost. */
  readonly checkOn: (sandboxId: string) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Freezes sandboxes in memory, and thaws them. The moves have begun: their records say what is meant. A server whose
 * record was taken over meanwhile undoes what it did to the instance.
 */
export class FreezeMoves {
  readonly #deps: FreezeMovesDeps;
  readonly #catchUps: CatchUp[] = [];

  constructor(deps: FreezeMovesDeps) {
    this.#deps = deps;
  }

  /** Registers changes to make at each thaw. Call it before the first request. */
  onWake(catchUp: CatchUp): void {
    this.#catchUps.push(catchUp);
  }

  /** Returns whether the instance is frozen. Rejects when its place does not answer. */
  isFrozen(sandbox: SandboxRecord): Promise<boolean> {
    return this.#deps.freezer.isFrozen(sandbox);
  }

  /** Keeps a sandbox paused that another server has frozen; gives up a pause that has frozen nothing yet. */
  async finish(own: SandboxRecord): Promise<SandboxRecord | undefined> {
    const { sandboxes, freezer, disks, clock } = this.#deps;
    let diskGeneration: number | undefined;
    try {
      if (!(await freezer.isFrozen(own))) {
        await this.undo(own, 'cancelPause');
        return undefined;
      }
      diskGeneration = await disks.keep(own);
    } catch (error) {
      throw explainedMove(own, error);
    }
    const audited = moveAudit(this.#deps, own, 'sandbox.paused', { by: own.pausedBy });
    const change = { ...pauseFrom(clock.now(), own.pause.retainMs), diskGeneration };
    return sandboxes.move(own, 'finishPause', change, audited);
  }

  /** Freezes a sandbox that is `pausing`. Returns undefined if it is not idle any more. @throws AppError */
  async freeze(call: Audited, begun: SandboxRecord, pausing: Pausing): Promise<SandboxRecord | undefined> {
    const { sandboxes, freezer, disks, clock } = this.#deps;
    const { by, idle, retainMs } = pausing;
    let diskGeneration: number | undefined;
    try {
      const busy = await freezer.closeGate(begun, pausing);
      if (busy) throw stillRunning(begun, busy.running);
      // A request that arrived since, or that another server has not written down in time, wins.
      if (idle && !(await idle.isStill())) {
        await this.undo(begun, 'cancelPause');
        return undefined;
      }
      await freezer.freeze(begun);
      // Before the record says that it is paused, so that a host that loses power then loses its memory alone.
      diskGeneration = await disks.keep(begun);
    } catch (error) {
      if (!(await this.undo(begun, 'cancelPause'))) return undefined;
      throw explainedMove(begun, error);
    }
    const change = { ...pauseFrom(clock.now(), retainMs), diskGeneration, use: await freezer.useOf(begun) };
    const audited = moveAudit(this.#deps, begun, 'sandbox.paused', { by, call });
    try {
      const paused = await sandboxes.move(begun, 'finishPause', change, audited);
      if (!paused) await this.#align(begun.id);
      return paused;
    } catch (error) {
      await this.undo(begun, 'cancelPause');
      throw error;
    }
  }

  /** Thaws a sandbox that is `waking`. Returns undefined if its record changed. @throws AppError; it stays paused then */
  async thaw(call: Audited, begun: SandboxRecord, { by, ttlMs }: Waking): Promise<SandboxRecord | undefined> {
    const { sandboxes, freezer, makeRoom, executions, checkOn, clock, log } = this.#deps;
    try {
      await this.#catchUp(begun, await makeRoom.for(() => freezer.thaw(begun)));
      const resumed = { at: clock.now(), by, ttlMs: ttlMs ?? begun.pause.wakeTtlMs };
      const audited = moveAudit(this.#deps, begun, 'sandbox.resumed', { by, call });
      const awake = await sandboxes.move(begun, 'finishWake', { resumed }, audited);
      // The idle timeout counts from the wake.
      if (awake) executions.touch(begun.id);
      else await this.#align(begun.id);
      return awake;
    } catch (error) {
      log.warn({ err: error, sandboxId: begun.id }, 'a sandbox could not be woken; it stays paused');
      if (!(await this.undo(begun, 'cancelWake'))) return undefined;
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
  async undo(begun: SandboxRecord, cancel: 'cancelPause' | 'cancelWake'): Promise<boolean> {
    const { sandboxes, servers, log } = this.#deps;
    try {
      // From now on no statement of this move takes effect that the database has got and not answered.
      const own = await sandboxes.move(begun, 'takeOver', { owner: servers.own });
      if (own && !(await this.#changeBack(own, cancel))) {
        // Without an owner, it is known that the wake was given up: its request was answered.
        if (cancel === 'cancelWake') await sandboxes.move(own, 'takeOver', { owner: null });
        return true;
      }
      const change = cancel === 'cancelPause' ? NOT_PAUSED_YET : {};
      if (own && (await sandboxes.move(own, cancel, change))) return true;
      await this.#align(begun.id);
      return false;
    } catch (error) {
      log.warn({ err: error, sandboxId: begun.id }, 'a pause or wake that was given up could not be undone yet');
      return true;
    }
  }

  /** Returns false if the record must stay as it is, because the instance may not be as it was before the move. */
  async #changeBack(own: SandboxRecord, cancel: 'cancelPause' | 'cancelWake'): Promise<boolean> {
    const { freezer, log } = this.#deps;
    try {
      await (cancel === 'cancelPause' ? freezer.thaw(own) : freezer.freeze(own));
      return true;
    } catch (error) {
      log.warn({ err: error, sandboxId: own.id }, 'an instance could not be changed back');
      // If its host does not say, a later pass goes on with the move.
      const isFrozen = await freezer.isFrozen(own).catch(() => undefined);
      return isFrozen === (cancel === 'cancelWake');
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
