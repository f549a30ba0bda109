import type { WorkspaceRunId } from '@cloche/contract';
import { requireProject } from '../../../platform/access/project-access.ts';
import { notFound } from '../../../platform/base/app-error.ts';
import type { Credential } from '../../../platform/keys/credential.ts';
import type { WorkspaceRunRecord } from './workspace-run.ts';
import type { WorkspaceRunRepository } from './workspace-run-repository.ts';

/** Finds workspace runs and checks that the key may access them. */
export class WorkspaceRunAccess {
  readonly #runs: WorkspaceRunRepository;

  constructor(runs: WorkspaceRunRepository) {
    this.#runs = runs;
  }

  /** @throws AppError `not_found` (unknown, or another organization's), `forbidden` (a project outside the key's). */
  async get(credential: Credential, id: WorkspaceRunId): Promise<WorkspaceRunRecord> {
    const record = await this.#runs.find(id);
    if (!record || record.orgId !== credential.orgId) throw notFound('workspace run', id);
    requireProject(credential, record.projectId, `project of the workspace run "${id}"`);
    return record;
  }
}
