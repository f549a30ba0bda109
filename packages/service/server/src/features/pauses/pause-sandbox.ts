import type { MemoryMode, PauseSandboxBody, SandboxId } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import { invalidRequest } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import type { Call } from '../../platform/call/call.ts';
import type { Database } from '../../platform/db/database.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import { requireLive, type SandboxAccess } from '../sandbox-records/sandbox-access.ts';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import { factsOf, stateOf } from '../sandbox-status/status-facts.ts';
import { filesUnsupported, memoryUnsupported } from './move-support.ts';
import { refuseNeverPaused } from './never-paused.ts';
import type { PauseMoves } from './pause-moves.ts';
import type { PauseSupport } from './pause-support.ts';
import { retentionFrom } from './retention.ts';
import type { WakeSandbox } from './wake-sandbox.ts';

export interface PauseSandboxDeps {
  readonly db: Database;
  readonly sandboxes: SandboxRepository;
  readonly access: SandboxAccess;
  /** Resolves when the sandbox is no longer being launched. Rejects when `limit` aborts, or `caller`. */
  readonly awaitLaunch: (record: SandboxRecord, limit: AbortSignal, caller: AbortSignal) => Promise<SandboxRecord>;
  readonly moves: PauseMoves;
  readonly wakeSandbox: WakeSandbox;
  readonly support: PauseSupport;
  readonly retentionMs: number;
  readonly clock: Clock;
}

/** Pauses sandboxes at the request of clients. */
export class PauseSandbox {
  readonly #deps: PauseSandboxDeps;

  constructor(deps: PauseSandboxDeps) {
    this.#deps = deps;
  }

  /** Idempotent by state. @throws AppError */
  async pause(call: Call, id: SandboxId, body: PauseSandboxBody): Promise<SandboxRecord> {
    const { access, moves, wakeSandbox, retentionMs } = this.#deps;
    const { memory = 'keep', force = false, retainMs } = body;
    if (retainMs !== undefined && retainMs > retentionMs) {
      throw invalidRequest({ path: 'body.retainMs', message: `must be <= ${retentionMs}` });
    }
    for (;;) {
      const found = await access.getLive(call.credential, id);
      const record = requireLive(await this.#launched(found, call.signal));
      switch (stateOf(record)) {
        case 'ready': {
          await this.#requireSupport(record, memory);
          const paused = await moves.pause(call, record, {
            by: 'request',
            memory,
            force,
            retainMs: retainMs ?? record.pause.retainMs,
          });
          if (paused) return paused;
          break;
        }
        case 'paused':
        case 'parked': {
          if (memory === 'drop' && !factsOf(record).hasLostMemory) {
            await this.#requireSupport(record, memory);
            await moves.drop(record, 'asked');
            break;
          }
          const kept = await this.#retain(record, body.retainMs);
          if (kept) return kept;
          break;
        }
        default:
          await wakeSandbox.settled(id, call.signal);
      }
    }
  }

  async #launched(found: SandboxRecord, signal: AbortSignal): Promise<SandboxRecord> {
    using limit = new Deadline(AGENT_LIMITS.readyMs, signal);
    return await this.#deps.awaitLaunch(found, limit.signal, signal);
  }

  async #retain(paused: SandboxRecord, retainMs: number | undefined): Promise<SandboxRecord | undefined> {
    if (retainMs === undefined) return paused;
    const { sandboxes, clock } = this.#deps;
    return sandboxes.move(paused, 'setRetention', retentionFrom(clock.now(), retainMs));
  }

  async #requireSupport(record: SandboxRecord, memory: MemoryMode): Promise<void> {
    const { db, support } = this.#deps;
    if (memory === 'drop' && !(await support.ofFiles())) throw filesUnsupported(record);
    if (memory !== 'drop' && !(await support.onRequest())) throw memoryUnsupported(record);
    await refuseNeverPaused(db, record);
  }
}
