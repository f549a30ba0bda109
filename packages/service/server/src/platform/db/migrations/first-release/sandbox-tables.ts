/** Sandboxes, and what belongs to each. */
export const SANDBOX_TABLES = `
create table sandboxes (
  id text primary key, org_id text not null references orgs (id),
  project_id text not null references projects (id), status text not null, generation integer not null,
  template_id text not null, template_slug text not null, template_version text not null,
  template_version_id text not null, ttl_ms bigint not null, idle_timeout_ms bigint, expires_at bigint not null,
  metadata text not null, env text not null, network_policy text not null, resources text not null,
  used integer not null, last_active_at bigint, instance text, created_at bigint not null, destroyed_at bigint,
  destroyed_reason text, failure_reason text, ending_reason text, idempotency_record_id text unique,
  cpu_millis integer not null default 0, memory_mb integer not null default 0, ready_at bigint, secrets text,
  launch_owner text, failure_kind text, planned_at bigint
);
create index sandboxes_org_created on sandboxes (org_id, created_at);
-- Not partial: SQLite does not infer that "status in (…)" implies "status not in (…)".
create index sandboxes_status on sandboxes (status, expires_at);
create index sandboxes_org_status on sandboxes (org_id, status, created_at);
create index sandboxes_unended on sandboxes (org_id, created_at, id) where status not in ('destroyed', 'failed');
create index sandboxes_project on sandboxes (project_id);

create table sandbox_activity (
  sandbox_id text not null, server_id text not null, running integer not null, last_active_at bigint not null,
  constraint sandbox_activity_key primary key (sandbox_id, server_id)
);

create table sandbox_notes (
  sandbox_id text not null, name text not null, value text not null,
  constraint sandbox_notes_key primary key (sandbox_id, name)
);

create table code_contexts (
  id text primary key, sandbox_id text not null references sandboxes (id), generation integer not null,
  language text not null, cwd text not null, is_default integer not null, timeout_ms bigint,
  created_at bigint not null, deleted_at bigint, idempotency_record_id text,
  constraint code_contexts_idempotency unique (sandbox_id, idempotency_record_id)
);
create unique index code_contexts_one_default on code_contexts (sandbox_id, language, generation)
  where is_default = 1 and deleted_at is null;
create index code_contexts_created on code_contexts (sandbox_id, created_at, id);

create table commands (
  id text primary key, sandbox_id text not null references sandboxes (id), generation integer not null,
  command text not null, cwd text not null, "user" text not null, background integer not null,
  status text not null, exit_code integer, signal text, failure_reason text, started_at bigint not null,
  finished_at bigint, duration_ms bigint, idempotency_record_id text, watched_by text,
  constraint commands_idempotency unique (sandbox_id, idempotency_record_id)
);
create index commands_of_sandbox on commands (sandbox_id, started_at);
create index commands_running on commands (sandbox_id) where status = 'running';

create table previews (
  id text primary key, org_id text not null references orgs (id),
  project_id text not null references projects (id), sandbox_id text not null references sandboxes (id),
  port integer not null, visibility text not null, token_hash text, created_at bigint not null,
  expires_at bigint, deleted_at bigint, idempotency_record_id text, api_key_id text references api_keys (id)
);
create index previews_sandbox on previews (sandbox_id);
create index previews_org_created on previews (org_id, created_at);
create index previews_api_key on previews (api_key_id);
create index previews_kept on previews (org_id, created_at, id) where deleted_at is null;
create index previews_project on previews (project_id);

create table artifacts (
  id text primary key, org_id text not null references orgs (id),
  project_id text not null references projects (id), sandbox_id text not null references sandboxes (id),
  name text not null, path text, content_type text not null, size_bytes bigint not null, sha256 text not null,
  metadata text not null, created_at bigint not null, expires_at bigint, deleted_at bigint,
  idempotency_record_id text unique, workspace_run_id text
);
create index artifacts_sha256 on artifacts (sha256);
create index artifacts_org_created on artifacts (org_id, created_at);
create index artifacts_workspace_run on artifacts (workspace_run_id);
create index artifacts_kept on artifacts (org_id, created_at, id) where deleted_at is null;
create index artifacts_sandbox on artifacts (sandbox_id, created_at, id);
create index artifacts_deleted on artifacts (deleted_at) where deleted_at is not null;
create index artifacts_project on artifacts (project_id);

create table content_removals (
  sha256 text primary key, until bigint not null
);

create table mcp_sessions (
  id_hash text primary key, api_key_id text not null, sandbox_id text, log_level text, used_at bigint not null,
  subscriptions text not null default '[]'
);
create index mcp_sessions_of_key on mcp_sessions (api_key_id, used_at);
create index mcp_sessions_used on mcp_sessions (used_at);
`;
