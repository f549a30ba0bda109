/** Organizations, their projects and keys, and what is recorded of them. */
export const ORGANIZATION_TABLES = `
create table orgs (
  id text primary key, name text not null unique, created_at bigint not null, quotas text not null default '{}'
);

create table projects (
  id text primary key, org_id text not null references orgs (id), name text not null,
  is_default integer not null, created_at bigint not null, name_key text not null default '',
  metadata text not null default '{}', quotas text not null default '{}', updated_at bigint not null default 0,
  deleted_at bigint, idempotency_record_id text, limited integer not null default 0
);
create unique index projects_one_default on projects (org_id) where is_default = 1;
create unique index projects_name on projects (org_id, name_key) where deleted_at is null;
create unique index projects_idempotency on projects (idempotency_record_id);
create index projects_kept on projects (org_id, created_at, id) where deleted_at is null;
create index projects_org_created on projects (org_id, created_at, id);
create index projects_deleted on projects (deleted_at) where deleted_at is not null;

create table api_keys (
  id text primary key, org_id text not null references orgs (id), name text not null, public_part text unique,
  secret_hash text not null unique, scopes text not null, project_ids text, created_at bigint not null,
  expires_at bigint, revoked_at bigint, created_by text, last_used_at bigint, rotated_from text,
  idempotency_record_id text, superseded integer not null default 0
);
create index api_keys_org_created on api_keys (org_id, created_at);
create index api_keys_idempotency on api_keys (idempotency_record_id);
create index api_keys_expires on api_keys (expires_at);
create index api_keys_kept on api_keys (org_id, created_at, id) where revoked_at is null;
create index api_keys_revoked on api_keys (revoked_at) where revoked_at is not null;

create table key_epochs (
  id integer primary key, epoch bigint not null
);

create table key_caches (
  server_id text primary key, epoch bigint not null, valid_until bigint not null
);

create table quota_refusals (
  scope_id text not null, quota text not null, announced_at bigint not null,
  constraint quota_refusals_key primary key (scope_id, quota)
);

create table request_counts (
  scope_id text not null, second bigint not null, process_id text not null, requests integer not null,
  constraint request_counts_key primary key (scope_id, second, process_id)
);

create table secrets (
  id text primary key, org_id text not null, project_id text not null, name text not null, hosts text not null,
  value text not null, created_at bigint not null, updated_at bigint not null, deleted_at bigint,
  idempotency_record_id text unique
);
create index secrets_org on secrets (org_id, created_at);
create index secrets_kept on secrets (org_id, created_at, id) where deleted_at is null;
create index secrets_deleted on secrets (deleted_at) where deleted_at is not null;
create index secrets_project on secrets (project_id);

create table event_sequences (
  org_id text primary key, last_seq bigint not null
);

create table events (
  org_id text not null, seq bigint not null, id text not null, type text not null, at bigint not null,
  project_id text, data text not null,
  constraint events_by_seq primary key (org_id, seq)
);
create index events_at on events (at);

create table webhooks (
  id text primary key, org_id text not null, project_id text, url text not null, events text not null,
  description text, enabled integer not null, disabled_reason text, secret text not null, previous_secret text,
  previous_secret_until bigint, cursor_seq bigint not null, delivery_seq bigint not null,
  attempts integer not null, failing_since bigint, next_attempt_at bigint not null, claimed_by text,
  claimed_until bigint, created_at bigint not null, updated_at bigint not null, deleted_at bigint,
  idempotency_record_id text unique, lost_first_seq bigint, lost_last_seq bigint
);
create index webhooks_org on webhooks (org_id, created_at);
create index webhooks_kept on webhooks (org_id, created_at, id) where deleted_at is null;
create index webhooks_deleted on webhooks (deleted_at) where deleted_at is not null;
create index webhooks_project on webhooks (project_id);

create table webhook_deliveries (
  id text primary key, webhook_id text not null references webhooks (id), seq bigint not null,
  event_id text not null, event_type text not null, event_seq bigint, status text not null,
  attempts integer not null, created_at bigint not null, last_attempt_at bigint, retry_at bigint,
  retry_attempts integer not null, retry_since bigint, response_status integer, response_body text, error text,
  constraint webhook_deliveries_by_seq unique (webhook_id, seq),
  constraint webhook_deliveries_by_event unique (webhook_id, event_seq)
);
-- Finds deliveries that are retried by themselves.
create index webhook_deliveries_retry on webhook_deliveries (webhook_id, retry_at);
create index webhook_deliveries_created on webhook_deliveries (created_at);

create table audit_heads (
  org_id text primary key, last_seq bigint not null, last_hash text not null, signature text not null
);

create table audit_cuts (
  org_id text primary key, seq bigint not null, hash text not null, signature text not null
);

create table audit_events (
  org_id text not null, seq bigint not null, at bigint not null, omitted integer, project_id text, code text,
  request_id text, ip text, id text not null, actor_type text not null, actor_id text not null,
  action text not null, target_type text not null, target_id text not null, outcome text not null,
  prev_hash text not null, hash text not null, changes text,
  constraint audit_events_by_seq primary key (org_id, seq)
);

create table audited_expiries (
  api_key_id text primary key
);

create table sandbox_usage (
  sandbox_id text primary key, ended integer not null, cpu_ms bigint not null, memory_mb_ms bigint not null,
  disk_mb_ms bigint not null, egress_bytes bigint not null, ingress_bytes bigint not null, runs bigint not null,
  commands bigint not null, version bigint not null, generation bigint not null, cpu_counter bigint not null,
  egress_counter bigint not null, ingress_counter bigint not null, counted_until bigint not null
);

create table usage_hours (
  org_id text not null, hour bigint not null, project_id text not null, cpu_ms bigint not null,
  memory_mb_ms bigint not null, disk_mb_ms bigint not null, egress_bytes bigint not null,
  ingress_bytes bigint not null, runs bigint not null, commands bigint not null, sandbox_ms bigint not null,
  workspace_runs bigint not null, artifact_bytes bigint not null,
  constraint usage_hours_key primary key (org_id, hour, project_id)
);
`;
