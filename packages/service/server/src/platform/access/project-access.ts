import type { ProjectId } from '@cloche/contract';
import { AppError, notFound } from '../base/app-error.ts';
import { type Credential, mayUseProject } from '../keys/credential.ts';
import type { ProjectRecord } from '../tenancy/project.ts';
import type { ProjectRepository } from '../tenancy/project-repository.ts';

/** Finds projects and checks that the key may use them. */
export class ProjectAccess {
  readonly #projects: ProjectRepository;

  constructor(projects: ProjectRepository) {
    this.#projects = projects;
  }

  /**
   * Returns a project, also a deleted one.
   *
   * @throws AppError `not_found` (unknown, or another organization's), `forbidden` (a project outside the key's).
   */
  async get(credential: Credential, projectId: string): Promise<ProjectRecord> {
    const project = await this.#projects.find(credential.orgId, projectId);
    if (!project) throw notFound('project', projectId);
    requireProject(credential, project.id, `project "${projectId}"`);
    return project;
  }

  /** Returns a project that is not deleted. @throws AppError as `get` does; a deleted project is `not_found`. */
  async getOpen(credential: Credential, projectId: string): Promise<ProjectRecord> {
    const project = await this.get(credential, projectId);
    if (project.deletedAt !== undefined) throw projectDeleted(projectId);
    return project;
  }

  /**
   * Returns the project in which a request creates something: `wanted`, by default the default project of the
   * organization. The insert must check again that the project is not deleted.
   *
   * @throws AppError as `getOpen` does.
   */
  forCreation(credential: Credential, wanted: string | undefined): Promise<ProjectId> {
    return this.ofRequest(credential, wanted, 'body');
  }

  /**
   * Returns the project that a request is about: `wanted`, by default the default project of the organization.
   *
   * @param part of the request that has its field `projectId`
   * @throws AppError as `getOpen` does.
   */
  async ofRequest(credential: Credential, wanted: string | undefined, part: 'body' | 'query'): Promise<ProjectId> {
    if (wanted !== undefined) return (await this.getOpen(credential, wanted)).id;
    const id = await this.#projects.getDefaultId(credential.orgId);
    if (mayUseProject(credential, id)) return id;
    throw new AppError(
      'forbidden',
      `This API key may not use the default project; set ${part}.projectId to a project that the key may use.`,
    );
  }

  /**
   * Returns the projects that a list shows: the wanted one, also if it is deleted, or every project that the key may
   * use. Undefined means every project of the organization.
   *
   * @throws AppError as `get` does.
   */
  async listed(credential: Credential, wanted: string | undefined): Promise<readonly ProjectId[] | undefined> {
    if (wanted !== undefined) return [(await this.get(credential, wanted)).id];
    return credential.projectIds && [...credential.projectIds];
  }
}

/** Returns the error for something new in a deleted project. */
export function projectDeleted(projectId: string): AppError {
  return new AppError('not_found', `The project "${projectId.slice(0, 80)}" is deleted; use another project.`);
}

/**
 * Requires that the key may use the project of a resource. `what` names it, such as `project of the preview "prv_1"`.
 *
 * @throws AppError `forbidden`
 */
export function requireProject(credential: Credential, projectId: ProjectId, what: string): void {
  if (mayUseProject(credential, projectId)) return;
  throw new AppError('forbidden', `This API key may not use the ${what}; use a key that may.`);
}
