import type { Project } from '@cloche/contract';
import {
  type CreateProjectBody,
  ID_PREFIXES,
  LIMITS,
  type Metadata,
  mapBytes,
  type operations,
  type QueryOf,
  type UpdateProjectBody,
} from '@cloche/contract';
import { type ProjectAccess, projectDeleted } from '../../platform/access/project-access.ts';
import { AppError, invalidRequest } from '../../platform/base/app-error.ts';
import type { IdSource } from '../../platform/base/id-source.ts';
import type { Call } from '../../platform/call/call.ts';
import { type List, newestFirst } from '../../platform/db/list.ts';
import { type ProjectRecord, toProject } from '../../platform/tenancy/project.ts';
import type { ProjectRepository } from '../../platform/tenancy/project-repository.ts';
import type { ProjectChanges } from './project-changes.ts';

export interface ProjectServiceDeps {
  readonly access: ProjectAccess;
  readonly projects: ProjectRepository;
  readonly changes: ProjectChanges;
  readonly ids: IdSource;
}

/** Creates, lists, changes and deletes projects. A key that is bound to projects sees and changes only these. */
export class ProjectService {
  readonly #deps: ProjectServiceDeps;

  constructor(deps: ProjectServiceDeps) {
    this.#deps = deps;
  }

  /**
   * Creates one project per idempotency record.
   *
   * @throws AppError `forbidden` for a key that is bound to projects, `conflict` for a name that is taken,
   * `quota_exceeded`.
   */
  async create(call: Call, body: CreateProjectBody): Promise<ProjectRecord> {
    const { changes, ids } = this.#deps;
    const { credential, idempotency } = call;
    if (credential.projectIds !== undefined) {
      throw new AppError(
        'forbidden',
        'This API key is bound to projects and cannot create others; use a key of the whole organization.',
      );
    }
    checkMetadata(body.metadata);
    const { name, metadata = {}, quotas = {} } = body;
    const id = ids.next(ID_PREFIXES.project);
    const project = { id, orgId: credential.orgId, name, metadata, quotas, idempotencyRecordId: idempotency?.recordId };
    const insertion = await changes.insert(call, project, LIMITS.projectsPerOrganization);
    if (insertion.status === 'name_taken') throw nameTaken(name);
    if (insertion.status === 'full') throw tooMany(insertion.used);
    return insertion.project;
  }

  /** Opens the list of the projects that the key may see, newest first. */
  async list(
    { credential }: Call,
    query: QueryOf<typeof operations.listProjects>,
  ): Promise<List<ProjectRecord, Project>> {
    const { access, projects } = this.#deps;
    const projectIds = await access.listed(credential, undefined);
    const filter = { orgId: credential.orgId, projectIds, includeDeleted: query.include === 'deleted' };
    return newestFirst((part) => projects.list(filter, part), toProject);
  }

  /** Returns a project, also a deleted one. @throws AppError `not_found`, `forbidden` */
  get({ credential }: Call, id: string): Promise<ProjectRecord> {
    return this.#deps.access.get(credential, id);
  }

  /** Sets the given fields. @throws AppError `not_found`, also for a deleted project; `forbidden`, `conflict` */
  async update(call: Call, id: string, body: UpdateProjectBody): Promise<ProjectRecord> {
    const { access, changes } = this.#deps;
    const project = await access.getOpen(call.credential, id);
    checkMetadata(body.metadata);
    if (Object.keys(body).length === 0) return project;
    const updated = await changes.update(call, project, body);
    if (!updated) throw projectDeleted(id);
    if (updated === 'name_taken') throw nameTaken(body.name ?? '');
    return updated;
  }

  /** Idempotent. @throws AppError `not_found`, `forbidden`; `conflict` for the default project and one in use */
  async delete(call: Call, id: string): Promise<ProjectRecord> {
    const { access, changes } = this.#deps;
    const project = await access.get(call.credential, id);
    const deletion = await changes.delete(call, project.id);
    switch (deletion.status) {
      case 'deleted':
        return deletion.project;
      case 'default':
        throw new AppError('conflict', `The project "${id}" is the default project, which cannot be deleted.`);
      case 'in_use': {
        const { liveSandboxes, workspaceRuns } = deletion;
        throw new AppError(
          'conflict',
          `The project "${id}" is in use (live sandboxes: ${liveSandboxes}, workspace runs: ${workspaceRuns}); end them first.`,
          { details: { liveSandboxes, workspaceRuns } },
        );
      }
    }
  }
}

function checkMetadata(metadata: Metadata = {}): void {
  const bytes = mapBytes(metadata);
  if (bytes <= LIMITS.metadataBytes) return;
  const message = `has ${bytes} bytes of UTF-8 in keys and values together; at most ${LIMITS.metadataBytes} are allowed`;
  throw invalidRequest({ path: 'body.metadata', message });
}

function nameTaken(name: string): AppError {
  return new AppError(
    'conflict',
    `The organization has a project named "${name}" already, in upper or lower case; set body.name to another name.`,
  );
}

function tooMany(used: number): AppError {
  const limit = LIMITS.projectsPerOrganization;
  const message = `The organization has ${used} projects, and its limit is ${limit}; delete some first.`;
  return new AppError('quota_exceeded', message, { details: { quota: 'projects', limit, used } });
}
