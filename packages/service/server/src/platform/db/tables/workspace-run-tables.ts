export interface WorkspaceRunTables {
  workspace_runs: WorkspaceRunTable;
  workspace_run_turns: WorkspaceRunTurnTable;
  workspace_archives: WorkspaceArchiveTable;
}

export interface WorkspaceRunTable {
  id: string;
  org_id: string;
  project_id: string;
  status: 'awaiting_archive' | 'archived' | 'queued' | 'running' | 'succeeded' | 'failed' | 'timed_out' | 'canceled';
  /** JSON of what was requested: the command and its sandbox. */
  settings: string;
  template_version_id: string;
  metadata: string;
  auto_start: number;
  /** JSON of the stored archive; null before the first upload. */
  archive: string | null;
  /** The step of the run that a server executes, or executed when it ended; null if there is nothing to do. */
  step: 'launching' | 'unpacking' | 'commanding' | 'exporting' | 'ending' | null;
  /** Number of the sandbox that is created for the run, from 1. Only a host without capacity raises it. */
  attempt: number;
  sandbox_id: string | null;
  /** Number of attempts to unpack the archive. It only grows, so that the agent can order the attempts. */
  archive_attempts: number;
  /** JSON of how the command ended, before the run takes its last status. */
  outcome: string | null;
  /** JSON array. */
  artifact_ids: string;
  created_at: number;
  queued_at: number | null;
  started_at: number | null;
  cancel_requested_at: number | null;
  finished_at: number | null;
  /** The process that works on the run. */
  claimed_by: string | null;
  claimed_until: number | null;
  /** Idempotency record of the request that started it. */
  start_record_id: string | null;
  /** Unique, so that one idempotency key never creates two runs. */
  idempotency_record_id: string | null;
}

/** When an organization or a project had its last turn. */
export interface WorkspaceRunTurnTable {
  scope_id: string;
  turn: number;
}

export interface WorkspaceArchiveTable {
  /** Name of the content in the store: 64 random hexadecimal digits. */
  id: string;
  org_id: string;
  run_id: string;
  /** A run has at most one `current` archive. The content of a `discarded` one is about to be removed. */
  state: 'receiving' | 'current' | 'discarded';
  /** Whether the client uploads it by a signed URL. */
  is_transfer: number;
  format: 'tar' | 'tar.gz' | 'tar.zst' | 'zip';
  size_bytes: number;
  sha256: string;
  created_at: number;
  /** When an upload that is still `receiving` is given up. */
  expires_at: number;
}
