import type { ApiKeyId, OrgId, ProjectId, Scope } from '@cloche/contract';

/** Identity and rights of a valid API key. */
export interface Credential {
  readonly apiKeyId: ApiKeyId;
  readonly orgId: OrgId;
  /** Granted scopes, with `*` expanded. */
  readonly scopes: ReadonlySet<Scope>;
  /** Allowed projects; undefined for every project of the organization. */
  readonly projectIds: ReadonlySet<ProjectId> | undefined;
}

export function mayUseProject(credential: Credential, projectId: ProjectId): boolean {
  return credential.projectIds === undefined || credential.projectIds.has(projectId);
}
