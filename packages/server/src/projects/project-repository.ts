import type { OrgId, ProjectId } from '@cloche/contract';
import type { Database } from '../db/database.ts';

export interface Project {
  readonly id: ProjectId;
  readonly orgId: OrgId;
  readonly name: string;
  readonly isDefault: boolean;
  readonly createdAt: number;
}

export interface ProjectRepository {
  /**
   * Returns a project of the organization, or undefined. `projectId` comes from a client; a project of another
   * organization is not found.
   */
  find(orgId: OrgId, projectId: string): Promise<Project | undefined>;
  /**
   * Returns the default project, which every organization has from its creation. Throws for an organization that does
   * not exist.
   */
  getDefault(orgId: OrgId): Promise<Project>;
}

/** Caches the default projects, since projects cannot change yet. */
export class SqlProjectRepository implements ProjectRepository {
  readonly #db: Database;
  readonly #defaults = new Map<OrgId, Project>();

  constructor(db: Database) {
    this.#db = db;
  }

  async find(orgId: OrgId, projectId: string): Promise<Project | undefined> {
    const row = await this.#db
      .selectFrom('projects')
      .selectAll()
      .where('id', '=', projectId)
      .where('org_id', '=', orgId)
      .executeTakeFirst();
    return row && toProject(row);
  }

  async getDefault(orgId: OrgId): Promise<Project> {
    const known = this.#defaults.get(orgId);
    if (known) return known;
    const row = await this.#db
      .selectFrom('projects')
      .selectAll()
      .where('org_id', '=', orgId)
      .where('is_default', '=', 1)
      .executeTakeFirstOrThrow(() => new Error(`organization ${orgId} has no default project`));
    const project = toProject(row);
    this.#defaults.set(orgId, project);
    return project;
  }
}

function toProject(row: { id: string; org_id: string; name: string; is_default: number; created_at: number }): Project {
  return {
    id: row.id as ProjectId,
    orgId: row.org_id as OrgId,
    name: row.name,
    isDefault: row.is_default === 1,
    createdAt: row.created_at,
  };
}
