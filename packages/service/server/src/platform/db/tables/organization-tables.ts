import type { Generated } from 'kysely';

export interface OrganizationTables {
  orgs: OrgTable;
  projects: ProjectTable;
  api_keys: ApiKeyTable;
  key_epochs: KeyEpochTable;
  key_caches: KeyCacheTable;
}

export interface OrgTable {
  id: string;
  name: string;
  created_at: number;
  /** JSON object. */
  quotas: Generated<string>;
}

export interface ProjectTable {
  id: string;
  org_id: string;
  name: string;
  /** The name in one case and one Unicode form, unique among the projects of the organization that are not deleted. */
  name_key: string;
  is_default: number;
  /** JSON object. */
  metadata: Generated<string>;
  /** JSON object. */
  quotas: Generated<string>;
  /** 1 if limits apply in the project: its own, or those that the operator set for the organization. */
  limited: Generated<number>;
  created_at: number;
  updated_at: number;
  deleted_at: number | null;
  /** Unique, so that one idempotency key never creates two projects. */
  idempotency_record_id: string | null;
}

export interface ApiKeyTable {
  id: string;
  org_id: string;
  name: string;
  /** The 8 characters that identify the key; null for a free-form bootstrap key. */
  public_part: string | null;
  /** SHA-256 of the whole key, hex. */
  secret_hash: string;
  /** JSON array. */
  scopes: string;
  /** JSON array, or null for every project. */
  project_ids: string | null;
  created_at: number;
  /** Id of the key that created it; null for the operator. */
  created_by: string | null;
  /** Written from time to time, at most a minute behind. */
  last_used_at: number | null;
  expires_at: number | null;
  revoked_at: number | null;
  /** 1 for a bootstrap key that was revoked only because the settings have another one. */
  superseded: number;
  /** Id of the key that it replaces. */
  rotated_from: string | null;
  idempotency_record_id: string | null;
}

/** Has exactly one row. */
export interface KeyEpochTable {
  id: number;
  /** Number of the latest change of keys that outdates what servers have cached. */
  epoch: number;
}

/** Servers that cache keys, which each of them may do until a time. SQLite, which has one server, has no rows. */
export interface KeyCacheTable {
  server_id: string;
  /** Latest change that the server has heard of. */
  epoch: number;
  valid_until: number;
}
