import type { operations, QueryOf, Sandbox, SandboxStatus } from '@cloche/contract';
import type { Credential } from '../../api-keys/credential.ts';
import type { ProjectAccess } from '../../projects/access/project-access.ts';
import { HISTORICAL_STATUSES, OCCUPYING_STATUSES, type RecordStatus } from '../record/sandbox.ts';
import type { SandboxRepository } from '../record/sandbox-repository.ts';
import { type SharedActivity, showSandboxes } from '../record/shared-activity.ts';

type Query = QueryOf<typeof operations.listSandboxes>;
const LABEL = 'metadata.';

/** Lists the sandboxes that a key may see, newest first. */
export class ListSandboxes {
  readonly #sandboxes: SandboxRepository;
  readonly #projects: ProjectAccess;
  readonly #activity: SharedActivity;

  constructor(sandboxes: SandboxRepository, projects: ProjectAccess, activity: SharedActivity) {
    this.#sandboxes = sandboxes;
    this.#projects = projects;
    this.#activity = activity;
  }

  /** @throws AppError `not_found` and `forbidden` for a `projectId` that the key cannot use. */
  async list(credential: Credential, query: Query): Promise<Sandbox[]> {
    const records = await this.#sandboxes.list({
      orgId: credential.orgId,
      projectIds: await this.#projects.listed(credential, query.projectId),
      statuses: recordStatuses(query),
    });
    const labels = Object.entries(query).filter(([name]) => name.startsWith(LABEL));
    const shown = await showSandboxes(records, this.#activity);
    return shown.filter(({ status, metadata }) => {
      if (query.status !== undefined && status !== query.status) return false;
      return labels.every(([name, value]) => {
        const key = name.slice(LABEL.length);
        return Object.hasOwn(metadata, key) && metadata[key] === value;
      });
    });
  }
}

function recordStatuses({ status, include }: Query): readonly RecordStatus[] {
  if (status !== undefined) return [recordStatusOf(status)];
  return include === 'historical' ? [...OCCUPYING_STATUSES, ...HISTORICAL_STATUSES] : OCCUPYING_STATUSES;
}

function recordStatusOf(status: SandboxStatus): RecordStatus {
  return status === 'running' || status === 'idle' ? 'ready' : status;
}
