import type { OrgId, ProjectId } from '@cloche/contract';
import type { Database } from '../db/database.ts';
import { type ListPart, NEWEST_FIRST, readPart } from '../db/list-part.ts';
import { type ProjectRecord, toRecord } from './project.ts';

export interface ProjectFilter {
  readonly orgId: OrgId;
  /** Undefined means every project of the organization. */
  readonly projectIds: readonly ProjectId[] | undefined;
  readonly includeDeleted: boolean;
}

/** Reads projects. */
export interface ProjectRepository {
  /**
   * Returns a project of the organization, also a deleted one, or undefined. `projectId` comes from a client; a project
   * of another organization is not found.
   */
  find(orgId: OrgId, projectId: string): Promise<ProjectRecord | undefined>;
  /** Returns a part of the matching projects, newest first. */
  list(filter: ProjectFilter, part: ListPart): Promise<ProjectRecord[]>;
  /**
   * Returns the id of the default project, which every organization has from its creation and which cannot be deleted.
   * Throws for an organization that does not exist.
   */
  getDefaultId(orgId: OrgId): Promise<ProjectId>;
}

/** Caches the ids of the default projects, because they never change. */
export class SqlProjectRepository implements ProjectRepository {
  readonly #db: Database;
  readonly #defaults = new Map<OrgId, ProjectId>();

  constructor(db: Database) {
    this.#db = db;
  }

  async find(orgId: OrgId, projectId: string): Promise<ProjectRecord | undefined> {
    const row = await this.#db
      .selectFrom('projects')
      .selectAll()
      .where('id', '=', projectId)
      .where('org_id', '=', orgId)
      .executeTakeFirst();
    return row && toRecord(row);
  }

  async list({ orgId, projectIds, includeDeleted }: ProjectFilter, part: ListPart): Promise<ProjectRecord[]> {
    let query = this.#db.selectFrom('projects').selectAll().where('org_id', '=', orgId);
    if (projectIds) query = query.where('id', 'in', projectIds);
    if (!includeDeleted) query = query.where('deleted_at', 'is', null);
    return (await readPart(query, NEWEST_FIRST, part)).map(toRecord);
  }

  async getDefaultId(orgId: OrgId): Promise<ProjectId> {
    const known = this.#defaults.get(orgId);
    if (known) return known;
    const row = await this.#db
      .selectFrom('projects')
      .select('id')
      .where('org_id', '=', orgId)
      .where('is_default', '=', 1)
      .executeTakeFirstOrThrow(() => new Error(`organization ${orgId} has no default project`));
    const id = row.id as ProjectId;
    this.#defaults.set(orgId, id);
    return id;
  }
}
