import type { ApiKeyId, OrgId, ProjectId, Scope } from '@cloche/contract';

/** Who is asking: what a valid API key stands for. */
export interface Credential {
  readonly apiKeyId: ApiKeyId;
  readonly orgId: OrgId;
  /** `*` is spelled out when the key is read. */
  readonly scopes: ReadonlySet<Scope>;
  /** Undefined: every project of the organization. */
  readonly projectIds: ReadonlySet<ProjectId> | undefined;
}

export function mayUseProject(credential: Credential, projectId: ProjectId): boolean {
  return credential.projectIds === undefined || credential.projectIds.has(projectId);
}
