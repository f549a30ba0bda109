import type { CreateProjectBody, Project, ProjectId, ProjectQuotas, UpdateProjectBody } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { type PagedList, type PageOptions, pagedList } from './paged-list.ts';
import type { CallOptions } from './request.ts';

export interface CreateProjectOptions extends CallOptions {
  metadata?: Record<string, string> | undefined;
  /** A quota that is left out, or null, has no limit of the project. */
  quotas?: ProjectQuotas | undefined;
}

export interface UpdateProjectOptions extends CreateProjectOptions {
  name?: string | undefined;
}

export interface ListProjectsOptions extends PageOptions {
  /** `deleted` also lists deleted projects. */
  include?: 'deleted' | undefined;
}

/** The projects that the key can see. */
export class Projects {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /**
   * Creates a project.
   *
   * ```ts
   * const project = await cloche.projects.create('billing', { metadata: { team: 'payments' } });
   * const sandbox = await cloche.sandboxes.create({ projectId: project.id });
   * ```
   *
   * @param name unique in the organization, whatever its case
   * @throws {ClocheError} `conflict` if the name is taken, `forbidden` for a key that is bound to projects
   */
  async create(name: string, options: CreateProjectOptions = {}): Promise<Project> {
    const { metadata, quotas, ...call } = options;
    const body: CreateProjectBody = { name, ...(metadata && { metadata }), ...(quotas && { quotas }) };
    return (await this.#client.call('createProject', { ...call, body })).project;
  }

  /** Lists projects, newest first. By default, deleted ones are left out. */
  list({ include, ...call }: ListProjectsOptions = {}): PagedList<Project> {
    return pagedList(this.#client, 'listProjects', { ...call, query: { include } });
  }

  /** Also returns a deleted project. @throws {ClocheError} `not_found` */
  async get(projectId: string, options: CallOptions = {}): Promise<Project> {
    return (await this.#client.call('getProject', { ...options, params: paramsOf(projectId) })).project;
  }

  /**
   * Sets the given fields; `metadata` and `quotas` are replaced whole. @throws {ClocheError} `not_found`, `conflict`
   */
  async update(projectId: string, options: UpdateProjectOptions): Promise<Project> {
    const { name, metadata, quotas, ...call } = options;
    const body: UpdateProjectBody = {
      ...(name === undefined ? {} : { name }),
      ...(metadata && { metadata }),
      ...(quotas && { quotas }),
    };
    return (await this.#client.call('updateProject', { ...call, params: paramsOf(projectId), body })).project;
  }

  /**
   * Deletes a project; its artifacts stay readable. Idempotent.
   * @throws {ClocheError} `conflict` for the default project, and while sandboxes live in it (`details.liveSandboxes`).
   */
  async delete(projectId: string, options: CallOptions = {}): Promise<Project> {
    return (await this.#client.call('deleteProject', { ...options, params: paramsOf(projectId) })).project;
  }
}

/** Casts the id. Ids are opaque, so only the service can check them. */
function paramsOf(projectId: string): { projectId: ProjectId } {
  return { projectId: projectId as ProjectId };
}
