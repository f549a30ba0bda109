import type { SandboxId, UpdateSandboxBody } from '@cloche/contract';
import type { Call } from '../../../platform/call/call.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import { nameTaken, type SandboxAccess } from '../../sandbox-records/sandbox-access.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import { requireMetadata } from './create-request.ts';

/** Changes what clients may change of a sandbox after its creation. Does not wake it. */
export class UpdateSandbox {
  readonly #access: SandboxAccess;
  readonly #sandboxes: SandboxRepository;

  constructor(access: SandboxAccess, sandboxes: SandboxRepository) {
    this.#access = access;
    this.#sandboxes = sandboxes;
  }

  /**
   * Sets the fields that the body has.
   *
   * @throws AppError `conflict` if another sandbox has the name, `sandbox_destroyed`, `sandbox_failed`
   */
  async update(call: Call, id: SandboxId, body: UpdateSandboxBody): Promise<SandboxRecord> {
    if (body.metadata) requireMetadata(body.metadata);
    for (;;) {
      const current = await this.#access.getLive(call.credential, id);
      if (Object.keys(body).length === 0) return current;
      const changed = await this.#sandboxes.update(call, current, body);
      if (changed === 'name_taken') await this.#refuse(current, body);
      else if (changed) return changed;
    }
  }

  /** Returns if the other sandbox has ended meanwhile. */
  async #refuse({ projectId }: SandboxRecord, { name }: UpdateSandboxBody): Promise<void> {
    const holder = name && (await this.#sandboxes.findNamed(projectId, name));
    if (holder) throw nameTaken(holder);
  }
}
