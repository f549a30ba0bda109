import type { operations, ProjectId, QueryOf, SandboxStatus } from '@cloche/contract';
import { type Credential, mayUseProject } from '../../api-keys/credential.ts';
import { AppError, notFound } from '../../base/app-error.ts';
import type { ProjectRepository } from '../../projects/project-repository.ts';
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
  readonly #projects: ProjectRepository;
  readonly #activity: Activity;

  constructor(sandboxes: SandboxRepository, projects: ProjectRepository, activity: Activity) {
    this.#sandboxes = sandboxes;
    this.#projects = projects;
    this.#activity = activity;
  }

  /** @throws AppError `not_found` and `forbidden` for a `projectId` that the key cannot use. */
  async list(credential: Credential, query: Query): Promise<SandboxRecord[]> {
    const records = await this.#sandboxes.list({
      orgId: credential.orgId,
      projectIds: await this.#projectsOf(credential, query.projectId),
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

  async #projectsOf(credential: Credential, wanted: string | undefined): Promise<readonly ProjectId[] | undefined> {
    if (wanted === undefined) return credential.projectIds && [...credential.projectIds];
    const project = await this.#projects.find(credential.orgId, wanted);
    if (!project) throw notFound('project', wanted);
    if (!mayUseProject(credential, project.id)) {
      throw new AppError(
        'forbidden',
        `This key may not use the project "${wanted}"; use another project or another key.`,
      );
    }
    return [project.id];
  }
}

function recordStatuses({ status, include }: Query): readonly RecordStatus[] {
  if (status !== undefined) return [recordStatusOf(status)];
  return include === 'historical' ? [...OCCUPYING_STATUSES, ...HISTORICAL_STATUSES] : OCCUPYING_STATUSES;
}

function recordStatusOf(status: SandboxStatus): RecordStatus {
  return status === 'running' || status === 'idle' ? 'ready' : status;
}
