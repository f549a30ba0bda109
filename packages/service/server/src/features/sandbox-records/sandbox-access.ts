import type { SandboxId } from '@cloche/contract';
import { requireProject } from '../../platform/access/project-access.ts';
import { AppError, notFound } from '../../platform/base/app-error.ts';
import type { Credential } from '../../platform/keys/credential.ts';
import { factsOf } from '../sandbox-status/status-facts.ts';
import type { SandboxRecord } from './sandbox.ts';
import type { SandboxRepository } from './sandbox-repository.ts';

/** Finds sandboxes and checks that the key may access them. */
export class SandboxAccess {
  readonly #sandboxes: SandboxRepository;

  constructor(sandboxes: SandboxRepository) {
    this.#sandboxes = sandboxes;
  }

  /** @throws AppError `not_found` (unknown, or another organization's), `forbidden` (a project outside the key's). */
  async get(credential: Credential, id: SandboxId): Promise<SandboxRecord> {
    return requireAccess(credential, id, await this.#sandboxes.find(id));
  }

  /** @throws AppError as `get` does, and `sandbox_destroyed` or `sandbox_failed` when the sandbox is not live. */
  async getLive(credential: Credential, id: SandboxId): Promise<SandboxRecord> {
    return requireLive(await this.get(credential, id));
  }
}

/** Returns the record that was found for `id`. @throws AppError as `SandboxAccess.get` does */
export function requireAccess(credential: Credential, id: SandboxId, record: SandboxRecord | undefined): SandboxRecord {
  if (!record || record.orgId !== credential.orgId) throw notFound('sandbox', id);
  requireProject(credential, record.projectId, `project of the sandbox "${id}"`);
  return record;
}

export function requireLive(record: SandboxRecord): SandboxRecord {
  if (factsOf(record).acceptsWork) return record;
  throw sandboxEnded(record);
}

/** @throws AppError `sandbox_paused` */
export function requireAwake(record: SandboxRecord): SandboxRecord {
  if (!factsOf(record).needsWake) return record;
  throw sandboxPaused(record);
}

/** Returns the error for an operation that a paused sandbox refuses, or that its pause has ended. */
export function sandboxPaused(record: SandboxRecord): AppError {
  const { id, pause } = record;
  const memory = factsOf(record).hasLostMemory ? 'lost' : 'kept';
  return new AppError('sandbox_paused', `The sandbox "${id}" is paused; resume it first.`, {
    details: { wake: pause.wake, memory },
  });
}

/** Returns the error for a name that another sandbox has. */
export function nameTaken({ id, name }: SandboxRecord): AppError {
  const message = `The sandbox "${id}" has the name "${name}"; choose another name, or destroy that sandbox.`;
  return new AppError('conflict', message, { details: { sandboxId: id } });
}

/** Returns the error for an operation on a sandbox that is not live. */
export function sandboxEnded(record: SandboxRecord): AppError {
  if (factsOf(record).refusal === 'sandbox_failed') {
    const reason = record.failureReason ?? 'The sandbox failed.';
    return new AppError('sandbox_failed', `The sandbox "${record.id}" failed: ${reason} Create another one.`, {
      details: { reason },
    });
  }
  const reason = record.destroyedReason ?? record.endingReason;
  return new AppError('sandbox_destroyed', `The sandbox "${record.id}" is destroyed (${reason}). Create another one.`, {
    details: reason === undefined ? {} : { reason },
  });
}
