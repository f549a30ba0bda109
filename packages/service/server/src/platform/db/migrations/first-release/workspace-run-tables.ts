/** Workspace runs with their archives, and logs of numbered entries. */
export const WORKSPACE_RUN_TABLES = `
create table workspace_runs (
  id text primary key, org_id text not null, project_id text not null, status text not null,
  settings text not null, template_version_id text not null, metadata text not null,
  auto_start integer not null, archive text, step text, attempt integer not null, sandbox_id text, outcome text,
  artifact_ids text not null, created_at bigint not null, queued_at bigint, started_at bigint,
  cancel_requested_at bigint, finished_at bigint, claimed_by text, claimed_until bigint, start_record_id text,
  idempotency_record_id text unique, archive_attempts integer not null default 0
);
create index workspace_runs_org on workspace_runs (org_id, created_at);
-- Finds queued runs by their turn, and counts unfinished ones.
create index workspace_runs_queue on workspace_runs (status, org_id, project_id, queued_at);
-- Finds runs that a server works on, or worked on when it ended.
create index workspace_runs_step on workspace_runs (step);
create index workspace_runs_finished on workspace_runs (finished_at);
create index workspace_runs_project on workspace_runs (project_id);

create table workspace_run_turns (
  scope_id text primary key, turn bigint not null
);

create table workspace_archives (
  id text primary key, org_id text not null, run_id text not null, state text not null,
  is_transfer integer not null, format text not null, size_bytes bigint not null, sha256 text not null,
  created_at bigint not null, expires_at bigint not null
);
create index workspace_archives_run on workspace_archives (run_id, state);
create index workspace_archives_org on workspace_archives (org_id);
create index workspace_archives_state on workspace_archives (state, expires_at);

create table sequence_logs (
  id text primary key, last_seq bigint not null, source_seq bigint not null, output_bytes bigint not null,
  dropped_bytes bigint not null, closed_at bigint
);
create index sequence_logs_closed on sequence_logs (closed_at);

create table sequence_log_entries (
  log_id text not null, seq bigint not null, type text not null, at bigint not null, data text not null,
  bytes integer not null,
  constraint sequence_log_entries_pk primary key (log_id, seq)
);
`;
