export interface SecretTables {
  secrets: SecretTable;
}

export interface SecretTable {
  id: string;
  org_id: string;
  project_id: string;
  name: string;
  /** JSON array of host entries. */
  hosts: string;
  /** Encrypted, with the id of its key before it; empty once the secret is deleted. */
  value: string;
  created_at: number;
  updated_at: number;
  deleted_at: number | null;
  /** Unique, so that one idempotency key never creates two secrets. */
  idempotency_record_id: string | null;
}
