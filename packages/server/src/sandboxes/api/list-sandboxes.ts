import type { operations, QueryOf, SandboxStatus } from '@cloche/contract';
import type { Credential } from '../../api-keys/credential.ts';
import type { ProjectAccess } from '../../projects/access/project-access.ts';
import {
  type Activity,
  HISTORICAL_STATUSES,
  OCCUPYING_STATUSES,
  type RecordStatus,
  type SandboxRecord,
  statusOf,
} from '../record/sandbox.ts';
import type { SandboxRepository } from '../record/sandbox-repository.ts';

type Query = QueryOf<typeof operations.listSandboxes>;
const LABEL = 'metadata.';

/** Lists the sandboxes that a key may see, newest first. */
export class ListSandboxes {
  readonly #sandboxes: SandboxRepository;
  readonly #projects: ProjectAccess;
  readonly #activity: Activity;

  constructor(sandboxes: SandboxRepository, projects: ProjectAccess, activity: Activity) {
    this.#sandboxes = sandboxes;
    this.#projects = projects;
    this.#activity = activity;
  }

  /** @throws AppError `not_found` and `forbidden` for a `projectId` that the key cannot use. */
  async list(credential: Credential, query: Query): Promise<SandboxRecord[]> {
    const records = await this.#sandboxes.list({
      orgId: credential.orgId,
      projectIds: await this.#projects.listed(credential, query.projectId),
      statuses: recordStatuses(query),
    });
    const labels = Object.entries(query).filter(([name]) => name.startsWith(LABEL));
    return records.filter((record) => {
      if (query.status !== undefined && statusOf(record, this.#activity) !== query.status) return false;
      return labels.every(([name, value]) => {
        const key = name.slice(LABEL.length);
        return Object.hasOwn(record.metadata, key) && record.metadata[key] === value;
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
