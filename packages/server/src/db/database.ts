/**
 * Kysely types of the tables. Times are milliseconds since the epoch; JSON is stored as text. The types hold for
 * PostgreSQL too.
 */
import type { Generated, Kysely } from 'kysely';

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
  /** Id of the key that it replaces. */
  rotated_from: string | null;
  idempotency_record_id: string | null;
}

export interface IdempotencyRecordTable {
  id: string;
  org_id: string;
  api_key_id: string;
  method: string;
  /** Request path with its parameters filled in. */
  route: string;
  /** The idempotency key, or its hash if the response has a secret. */
  key: string;
  /** SHA-256 of the canonical JSON body, hex. */
  body_hash: string;
  state: 'in_progress' | 'completed' | 'failed';
  /** Id of the executing server, a colon, and the id of its claim. */
  owner: string;
  response_status: number | null;
  /** JSON; encrypted under a key that only the caller can derive if it has a secret. */
  response_body: string | null;
  /** JSON of a `ResultFile` if the response is too large for this table. */
  response_file: string | null;
  /** Approximate bytes of the record on the disk. */
  stored_bytes: number;
  created_at: number;
  expires_at: number;
}

/** Servers that share the database. A server that misses its heartbeat loses the records that it has in progress. */
export interface ServerLeaseTable {
  id: string;
  lease_until: number;
}

export interface SandboxTable {
  id: string;
  org_id: string;
  project_id: string;
  status: 'creating' | 'starting' | 'ready' | 'expiring' | 'destroyed' | 'failed';
  /** Number of the incarnation. A reference to another generation is stale. */
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
  /** From `resources`, for sums. */
  cpu_millis: number;
  memory_mb: number;
  /** Whether any run has started. Together with live activity this decides between `running` and `idle`. */
  used: number;
  /** Time of the last activity, written from time to time. After a restart, idle expiry counts from here. */
  last_active_at: number | null;
  /** JSON of the runtime's `Instance`; null before the launch. */
  instance: string | null;
  created_at: number;
  destroyed_at: number | null;
  destroyed_reason: string | null;
  failure_reason: string | null;
  /** Reason that the current teardown will record. */
  ending_reason: string | null;
  /** Unique, so that one idempotency key never creates two sandboxes. */
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
  /** Unique within the sandbox, so that one idempotency key never creates two contexts. */
  idempotency_record_id: string | null;
}

export interface PreviewTable {
  id: string;
  org_id: string;
  project_id: string;
  sandbox_id: string;
  port: number;
  visibility: string;
  /** SHA-256 of the access token, hex; null for a public preview. */
  token_hash: string | null;
  /** Id of the key that created it, with which it ends; null for a preview of an earlier version. */
  api_key_id: string | null;
  created_at: number;
  /** Null if the preview lasts as long as its sandbox. */
  expires_at: number | null;
  deleted_at: number | null;
  idempotency_record_id: string | null;
}

export interface CommandTable {
  id: string;
  sandbox_id: string;
  generation: number;
  /** JSON of the command line or of the list of arguments. */
  command: string;
  cwd: string;
  user: string;
  background: number;
  /** Last known status. No command of an ended sandbox runs, whatever its status. */
  status: 'running' | 'exited' | 'killed' | 'timed_out' | 'failed';
  exit_code: number | null;
  signal: string | null;
  failure_reason: string | null;
  started_at: number;
  finished_at: number | null;
  duration_ms: number | null;
  /** Unique within the sandbox, so that one idempotency key never starts two commands. */
  idempotency_record_id: string | null;
}

export interface ArtifactTable {
  id: string;
  org_id: string;
  project_id: string;
  sandbox_id: string;
  name: string;
  /** Path in the sandbox; null for an output of a run. */
  path: string | null;
  content_type: string;
  size_bytes: number;
  /** SHA-256 of the content, hex; the content's name in the store. */
  sha256: string;
  metadata: string;
  created_at: number;
  expires_at: number | null;
  deleted_at: number | null;
  /** Unique, so that one idempotency key never creates two artifacts. */
  idempotency_record_id: string | null;
}

/** Signing secrets, shared by all servers of the database. */
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
  /** Orders versions with equal `built_at`. */
  seq: Generated<number>;
}

/** The number of the last event of each organization. */
export interface EventSequenceTable {
  org_id: string;
  last_seq: number;
}

export interface EventTable {
  org_id: string;
  /** Numbers the events of an organization without gaps, in the order of their commits. */
  seq: number;
  id: string;
  type: string;
  at: number;
  /** Null if the event belongs to no project. */
  project_id: string | null;
  /** JSON of the resource, as its operation returns it. */
  data: string;
}

export interface WebhookTable {
  id: string;
  org_id: string;
  /** Null for the events of the whole organization. */
  project_id: string | null;
  url: string;
  /** JSON array of patterns. */
  events: string;
  description: string | null;
  enabled: number;
  disabled_reason: string | null;
  /** Encrypted; empty once the webhook is deleted. */
  secret: string;
  previous_secret: string | null;
  previous_secret_until: number | null;
  /** The events of the organization up to this one are done: delivered, set aside or not wanted. */
  cursor_seq: number;
  /** Number of the last delivery. */
  delivery_seq: number;
  /** Failed attempts since the last success, of the event that follows the cursor. */
  attempts: number;
  failing_since: number | null;
  /** No event is sent before this time. */
  next_attempt_at: number;
  /** The delivery process that sends to the webhook. */
  claimed_by: string | null;
  claimed_until: number | null;
  created_at: number;
  updated_at: number;
  deleted_at: number | null;
  /** Unique, so that one idempotency key never creates two webhooks. */
  idempotency_record_id: string | null;
}

export interface WebhookDeliveryTable {
  id: string;
  webhook_id: string;
  /** Numbers the deliveries of a webhook. */
  seq: number;
  event_id: string;
  event_type: string;
  /** Null for a test. Unique within the webhook. */
  event_seq: number | null;
  status: 'pending' | 'delivered' | 'failed';
  attempts: number;
  created_at: number;
  last_attempt_at: number | null;
  /** When it is tried by itself; null for a delivery that waits at the cursor of its webhook, and for one that is done. */
  retry_at: number | null;
  /** Failed attempts by itself. */
  retry_attempts: number;
  retry_since: number | null;
  response_status: number | null;
  /** Null for all but the latest deliveries of a webhook. */
  response_body: string | null;
  error: string | null;
}

/** When an event last reported refusals by a quota. */
export interface QuotaRefusalTable {
  /** Id of the project of the refused request, or of its organization. */
  scope_id: string;
  quota: string;
  announced_at: number;
}

/** The newest audit event of each organization, apart from the events, so that a missing end is found. */
export interface AuditHeadTable {
  org_id: string;
  last_seq: number;
  last_hash: string;
  /** HMAC of the other columns, hex. */
  signature: string;
}

/** The last audit event of each organization that was deleted after its retention period. */
export interface AuditCutTable {
  org_id: string;
  seq: number;
  hash: string;
  /** HMAC of the other columns, hex. */
  signature: string;
}

/** API keys whose expiry has an audit event. */
export interface AuditedExpiryTable {
  api_key_id: string;
}

export interface AuditEventTable {
  org_id: string;
  seq: number;
  id: string;
  at: number;
  project_id: string | null;
  actor_type: string;
  actor_id: string;
  action: string;
  target_type: string;
  target_id: string;
  outcome: string;
  code: string | null;
  omitted: number | null;
  request_id: string | null;
  ip: string | null;
  prev_hash: string;
  hash: string;
}

/** Requests of a limited organization or project in one second that a server received. */
export interface RequestCountTable {
  scope_id: string;
  /** Seconds since the epoch. */
  second: number;
  process_id: string;
  requests: number;
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
  event_sequences: EventSequenceTable;
  events: EventTable;
  webhooks: WebhookTable;
  webhook_deliveries: WebhookDeliveryTable;
  quota_refusals: QuotaRefusalTable;
  audit_heads: AuditHeadTable;
  audit_cuts: AuditCutTable;
  audit_events: AuditEventTable;
  audited_expiries: AuditedExpiryTable;
  request_counts: RequestCountTable;
}

export type Database = Kysely<Tables>;
