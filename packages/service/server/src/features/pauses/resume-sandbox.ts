import { LIMITS, type ResumeSandboxBody, type SandboxId } from '@cloche/contract';
import { AppError } from '../../platform/base/app-error.ts';
import type { Call } from '../../platform/call/call.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import { requireLive, type SandboxAccess } from '../sandbox-records/sandbox-access.ts';
import { factsOf, stateOf } from '../sandbox-status/status-facts.ts';
import { filesUnsupported } from './move-support.ts';
import type { PauseMoves } from './pause-moves.ts';
import type { PauseSupport } from './pause-support.ts';
import type { WakeSandbox } from './wake-sandbox.ts';

export interface ResumeSandboxDeps {
  readonly access: SandboxAccess;
  readonly wakeSandbox: WakeSandbox;
  readonly moves: Pick<PauseMoves, 'drop'>;
  readonly support: PauseSupport;
  /** Sets the lifetime of a sandbox that is not paused. */
  readonly setTtl: (call: Call, id: SandboxId, ttlMs: number) => Promise<SandboxRecord>;
}

/** Resumes paused sandboxes at the request of clients. */
export class ResumeSandbox {
  readonly #deps: ResumeSandboxDeps;

  constructor(deps: ResumeSandboxDeps) {
    this.#deps = deps;
  }

  /** Idempotent by state. @throws AppError */
  async resume(call: Call, id: SandboxId, { ttlMs, memory }: ResumeSandboxBody): Promise<SandboxRecord> {
    const { access, wakeSandbox, setTtl } = this.#deps;
    if (ttlMs !== undefined && ttlMs > LIMITS.sessionMaxMs) throw tooLong();
    const found = await access.getLive(call.credential, id);
    if (memory === 'drop') await this.#drop(found, call.signal);
    const awake = requireLive(await wakeSandbox.awake(found, call.signal, { by: 'request', ttlMs }, call));
    if (ttlMs === undefined || call.receivedAt + ttlMs <= awake.expiresAt) return awake;
    // Another request has woken it with a shorter lifetime, or it was not paused.
    const mayExtend = factsOf(found).needsWake || call.credential.scopes.has('sandbox:extend');
    return mayExtend ? setTtl(call, id, ttlMs) : awake;
  }

  /** Drops the memory of a paused sandbox, so that it is booted from its files. */
  async #drop(found: SandboxRecord, signal: AbortSignal): Promise<void> {
    const { wakeSandbox, moves, support } = this.#deps;
    if (!factsOf(found).needsWake) return;
    let record = await wakeSandbox.settled(found.id, signal);
    while (stateOf(record) === 'paused') {
      if (!(await support.ofFiles())) throw filesUnsupported(record);
      await moves.drop(record, 'asked');
      record = await wakeSandbox.settled(found.id, signal);
    }
  }
}

function tooLong(): AppError {
  const message = `body.ttlMs must be at most ${LIMITS.sessionMaxMs}: a session lasts at most 24 hours.`;
  return new AppError('sandbox_ttl_exceeded', message, { details: { maxTtlMs: LIMITS.sessionMaxMs } });
}
