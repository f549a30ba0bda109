/** The organizations and projects that tests begin with, and further ones. */
import { type ApiKeyId, type OrgId, type ProjectId, SCOPES } from '@cloche/contract';
import type { Database } from '../src/platform/db/database.ts';
import type { Credential } from '../src/platform/keys/credential.ts';

export const ORG = 'org_1' as OrgId;
export const DEFAULT_PROJECT = 'prj_default' as ProjectId;
export const OTHER_PROJECT = 'prj_other' as ProjectId;

export function credentialOf(orgId: OrgId = ORG, projectIds?: readonly ProjectId[]): Credential {
  const scopes = new Set(SCOPES);
  return { apiKeyId: 'key_1' as ApiKeyId, orgId, scopes, projectIds: projectIds && new Set(projectIds) };
}

export async function seed(db: Database): Promise<void> {
  await addOrganization(db, ORG, DEFAULT_PROJECT);
  await addOrganization(db, 'org_2', 'prj_foreign');
  await addProject(db, ORG, OTHER_PROJECT, 0);
}

/** Adds organizations, each with a default project. */
export async function addOrganizations(db: Database, count: number): Promise<OrgId[]> {
  const ids = Array.from({ length: count }, (_, index) => `org_more_${index}` as OrgId);
  for (const id of ids) await addOrganization(db, id, id.replace('org_', 'prj_'));
  return ids;
}

/** Adds projects to the organization of tests. */
export async function addProjects(db: Database, count: number): Promise<ProjectId[]> {
  const ids = Array.from({ length: count }, (_, index) => `prj_more_${index}` as ProjectId);
  for (const id of ids) await addProject(db, ORG, id, 0);
  return ids;
}

async function addOrganization(db: Database, id: string, defaultProject: string): Promise<void> {
  await db.insertInto('orgs').values({ id, name: id, created_at: 0 }).execute();
  await addProject(db, id, defaultProject, 1);
}

async function addProject(db: Database, org_id: string, id: string, is_default: number): Promise<void> {
  const values = { id, org_id, name: id, name_key: id, is_default, created_at: 0, updated_at: 0 };
  await db.insertInto('projects').values(values).execute();
}
