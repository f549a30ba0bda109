import type { ProjectId, SecretId } from '@cloche/contract';
import { makePlaceholder } from '@cloche/protocol';
import { notFound } from '../../platform/base/app-error.ts';
import type { SecretRepository } from './secret-repository.ts';

export interface PlannedSecrets {
  /** Placeholders by environment variable. */
  readonly env: Readonly<Record<string, string>>;
  /** Ids of secrets by placeholder. */
  readonly secrets: Readonly<Record<string, SecretId>>;
}

/**
 * Makes a placeholder for each secret of a new sandbox. Returns undefined for a sandbox without secrets.
 *
 * @param wanted ids of secrets by environment variable
 * @throws AppError `not_found` for a secret that is deleted or does not belong to the project
 */
export async function planSecrets(
  repository: SecretRepository,
  projectId: ProjectId,
  wanted: Readonly<Record<string, SecretId>>,
): Promise<PlannedSecrets | undefined> {
  const entries = Object.entries(wanted);
  if (entries.length === 0) return undefined;
  await requireSecrets(repository, projectId, Object.values(wanted));
  const made = entries.map(([name, id]) => ({ name, id, placeholder: makePlaceholder() }));
  return {
    env: Object.fromEntries(made.map(({ name, placeholder }) => [name, placeholder])),
    secrets: Object.fromEntries(made.map(({ id, placeholder }) => [placeholder, id])),
  };
}

/** @throws AppError `not_found` for a secret that is deleted or does not belong to the project */
export async function requireSecrets(
  repository: SecretRepository,
  projectId: ProjectId,
  wanted: readonly SecretId[],
): Promise<void> {
  const ids = [...new Set(wanted)];
  if (ids.length === 0) return;
  const found = new Set((await repository.listOfProject(projectId, ids)).map(({ id }) => id));
  const missing = ids.find((id) => !found.has(id));
  if (missing !== undefined) throw notFound('secret', missing);
}
