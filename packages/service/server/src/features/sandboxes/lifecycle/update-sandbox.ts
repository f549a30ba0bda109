import type { SandboxId, UpdateSandboxBody } from '@cloche/contract';
import type { Call } from '../../../platform/call/call.ts';
import type { Database } from '../../../platform/db/database.ts';
import type { Transaction } from '../../../platform/db/transactions.ts';
import { refuseNeverPaused } from '../../pauses/never-paused.ts';
import type { Quotas } from '../../quotas/quotas.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import { nameTaken, type SandboxAccess } from '../../sandbox-records/sandbox-access.ts';
import type { SandboxRepository, SandboxUpdate } from '../../sandbox-records/sandbox-repository.ts';
import type { SandboxSettings } from '../../sandbox-records/sandbox-settings.ts';
import { factsOf } from '../../sandbox-status/status-facts.ts';
import { requireMetadata } from './create-request.ts';
import { type CanPause, changedPause, requirePauses } from './plan-pause.ts';

export interface UpdateSandboxDeps {
  readonly db: Database;
  readonly access: SandboxAccess;
  readonly sandboxes: SandboxRepository;
  readonly quotas: Quotas;
  readonly settings: SandboxSettings;
  /** Whether sandboxes can be paused by themselves. */
  readonly canPause: CanPause;
}

/** Changes what clients may change of a sandbox after its creation. Does not wake it. */
export class UpdateSandbox {
  readonly #deps: UpdateSandboxDeps;

  constructor(deps: UpdateSandboxDeps) {
    this.#deps = deps;
  }

  /**
   * Sets the fields that the body has. Idempotent.
   *
   * @throws AppError `conflict` if another sandbox has the name, or it cannot be paused as the policy says;
   *   `quota_exceeded` if a pause at expiry has no place; `sandbox_destroyed`, `sandbox_failed`
   */
  async update(call: Call, id: SandboxId, body: UpdateSandboxBody): Promise<SandboxRecord> {
    const { access, sandboxes } = this.#deps;
    if (body.metadata) requireMetadata(body.metadata);
    for (;;) {
      const current = await access.getLive(call.credential, id);
      if (Object.keys(body).length === 0) return current;
      const change = { ...body, pause: body.pause && changedPause(current, body.pause, this.#deps.settings) };
      const write = (tx?: Transaction) => sandboxes.update(call, current, change, tx);
      const changed = await this.#admit(current, change, write);
      if (changed === 'name_taken') await this.#refuse(current, body);
      else if (changed) return changed;
    }
  }

  /** Writes the change, if the policy in it can be obeyed and has its place. */
  async #admit<T>(
    current: SandboxRecord,
    { pause }: SandboxUpdate,
    write: (tx?: Transaction) => Promise<T>,
  ): Promise<T> {
    const { db, quotas, canPause } = this.#deps;
    if (!pause) return write();
    await refuseNeverPaused(db, current);
    await requirePauses(pause, canPause);
    const hasPlace = current.pause.onExpiry || factsOf(current).countsPaused;
    if (!pause.onExpiry || hasPlace) return write();
    return quotas.admit(current, async (tx, requireRoom) => {
      await requireRoom({ pausedSandboxes: 1 });
      return write(tx);
    });
  }

  /** Returns if the other sandbox has ended meanwhile. */
  async #refuse({ projectId }: SandboxRecord, { name }: UpdateSandboxBody): Promise<void> {
    const holder = name && (await this.#deps.sandboxes.findNamed(projectId, name));
    if (holder) throw nameTaken(holder);
  }
}
