/** The tables, as Kysely sees them. Times are milliseconds since the epoch; JSON is text. Nothing here is SQLite's alone. */
import type { Generated, Kysely } from 'kysely';

export interface OrgTable {
  id: string;
  name: string;
  created_at: number;
}

export interface ProjectTable {
  id: string;
  org_id: string;
  name: string;
  is_default: number;
  created_at: number;
}

export interface ApiKeyTable {
  id: string;
  org_id: string;
  name: string;
  /** The 8 characters that identify it, or null for a bootstrap key of free form. */
  public_part: string | null;
  /** SHA-256 of the whole key, hex. */
  secret_hash: string;
  /** JSON array. */
  scopes: string;
  /** JSON array, or null for every project. */
  project_ids: string | null;
  created_at: number;
  expires_at: number | null;
  revoked_at: number | null;
}

export interface IdempotencyRecordTable {
  id: string;
  org_id: string;
  api_key_id: string;
  method: string;
  /** The concrete path. */
  route: string;
  key: string;
  /** SHA-256 of the canonical JSON body, hex. */
  body_hash: string;
  state: 'in_progress' | 'completed' | 'failed';
  /** The server that executes it, a colon, and its claim. */
  owner: string;
  response_status: number | null;
  response_body: string | null;
  /** JSON of a `ResultFile`, for a response too large for this table. */
  response_file: string | null;
  /** Approximate bytes of the record on the disk. */
  stored_bytes: number;
  created_at: number;
  expires_at: number;
}

/** Servers that share the database; one that misses its heartbeat loses what it had in progress. */
export interface ServerLeaseTable {
  id: string;
  lease_until: number;
}

export interface SandboxTable {
  id: string;
  org_id: string;
  project_id: string;
  status: 'creating' | 'starting' | 'ready' | 'expiring' | 'destroyed' | 'failed';
  /** Counts incarnations: what names another generation is stale. */
  generation: number;
  template_id: string;
  template_slug: string;
  template_version: string;
  template_version_id: string;
  ttl_ms: number;
  idle_timeout_ms: number | null;
  expires_at: number;
  metadata: string;
  env: string;
  network_policy: string;
  resources: string;
  /** Whether any run has started; with live activity it makes `running` and `idle`. */
  used: number;
  /** The last activity, written now and then: idle expiry after a restart counts from here. */
  last_active_at: number | null;
  /** JSON of the runtime's `Instance`, once launched. */
  instance: string | null;
  created_at: number;
  destroyed_at: number | null;
  destroyed_reason: string | null;
  failure_reason: string | null;
  /** The reason the teardown under way will record. */
  ending_reason: string | null;
  /** Unique: one key never makes two sandboxes. */
  idempotency_record_id: string | null;
}

export interface CodeContextTable {
  id: string;
  sandbox_id: string;
  generation: number;
  language: string;
  cwd: string;
  is_default: number;
  timeout_ms: number | null;
  created_at: number;
  deleted_at: number | null;
  /** Unique with the sandbox: one key never makes two contexts. */
  idempotency_record_id: string | null;
}

export interface PreviewTable {
  id: string;
  org_id: string;
  project_id: string;
  sandbox_id: string;
  port: number;
  visibility: string;
  /** SHA-256 of the access token, hex; null for a public one. */
  token_hash: string | null;
  created_at: number;
  /** Null: as long as its sandbox. */
  expires_at: number | null;
  deleted_at: number | null;
  idempotency_record_id: string | null;
}

export interface CommandTable {
  id: string;
  sandbox_id: string;
  generation: number;
  /** JSON of the line or the list of arguments. */
  command: string;
  cwd: string;
  user: string;
  background: number;
  /** What was heard of it last: of a sandbox that has ended none runs. */
  status: 'running' | 'exited' | 'killed' | 'timed_out' | 'failed';
  exit_code: number | null;
  signal: string | null;
  failure_reason: string | null;
  started_at: number;
  finished_at: number | null;
  duration_ms: number | null;
  /** Unique with the sandbox: one key never starts two commands. */
  idempotency_record_id: string | null;
}

export interface ArtifactTable {
  id: string;
  org_id: string;
  project_id: string;
  sandbox_id: string;
  name: string;
  /** Null for an output of a run. */
  path: string | null;
  content_type: string;
  size_bytes: number;
  /** Names the content in the store. */
  sha256: string;
  metadata: string;
  created_at: number;
  expires_at: number | null;
  deleted_at: number | null;
  /** Unique: one key never makes two artifacts. */
  idempotency_record_id: string | null;
}

/** What servers that share the database sign with. */
export interface ServerSecretTable {
  name: string;
  /** Hexadecimal. */
  value: string;
}

export interface TemplateTable {
  id: string;
  slug: string;
  description: string;
  languages: string;
  created_at: number;
}

export interface TemplateVersionTable {
  id: string;
  template_id: string;
  version: string;
  digest: string;
  packages: string;
  built_at: number;
  /** Breaks ties of `built_at`. */
  seq: Generated<number>;
}

export interface Tables {
  orgs: OrgTable;
  projects: ProjectTable;
  api_keys: ApiKeyTable;
  idempotency_records: IdempotencyRecordTable;
  server_leases: ServerLeaseTable;
  sandboxes: SandboxTable;
  code_contexts: CodeContextTable;
  commands: CommandTable;
  previews: PreviewTable;
  artifacts: ArtifactTable;
  server_secrets: ServerSecretTable;
  templates: TemplateTable;
  template_versions: TemplateVersionTable;
}

export type Database = Kysely<Tables>;
