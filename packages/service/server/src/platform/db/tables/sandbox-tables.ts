import type { Generated } from 'kysely';

export interface SandboxTables {
  sandboxes: SandboxTable;
  code_contexts: CodeContextTable;
  commands: CommandTable;
  sandbox_activity: SandboxActivityTable;
  sandbox_notes: SandboxNoteTable;
  previews: PreviewTable;
  artifacts: ArtifactTable;
  content_removals: ContentRemovalTable;
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
  /** JSON object of ids of secrets by placeholder; null without secrets. */
  secrets: Generated<string | null>;
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
  /** Keeps the order of creation, so that it can be later than `planned_at`. */
  created_at: number;
  /** Time of creation by the clock of the server. */
  planned_at: number;
  /** When usage begins to count; null if the sandbox never became ready. */
  ready_at: number | null;
  destroyed_at: number | null;
  destroyed_reason: string | null;
  failure_reason: string | null;
  failure_kind: string | null;
  /** Reason that the current teardown will record. */
  ending_reason: string | null;
  /** Unique, so that one idempotency key never creates two sandboxes. */
  idempotency_record_id: string | null;
  /** Id of the server that launches the sandbox; null if that server has given up the launch. */
  launch_owner: Generated<string | null>;
  /** State of the pause; null while the sandbox is not paused. It has a meaning with the status `ready` alone. */
  pause_state: Generated<string | null>;
  /** Incremented by each change of `pause_state`. A change has no effect if the value is not the one that it read. */
  pause_epoch: Generated<number>;
  /** Id of the server that pauses or wakes the sandbox. */
  pause_owner: Generated<string | null>;
  /** Names the last pause for the agent. */
  pause_token: Generated<string | null>;
  paused_at: Generated<number | null>;
  paused_by: Generated<string | null>;
  resumed_at: Generated<number | null>;
  resumed_by: Generated<string | null>;
  /** Time of the last wake; null before the first. */
  session_started_at: Generated<number | null>;
  /** Lifetime after a wake that names none; null in rows of older servers, which had none but `ttl_ms`. */
  wake_ttl_ms: Generated<number | null>;
  /** Null if it is not paused by itself when nothing uses it. */
  pause_after_idle_ms: Generated<number | null>;
  pause_on_expiry: Generated<number>;
  /** Null in rows of older servers, as of the next column: the defaults. */
  pause_wake: Generated<string | null>;
  pause_retain_ms: Generated<number | null>;
  /** Null in rows of older servers: the default. */
  pause_memory: Generated<string | null>;
  /** Mode of the memory in this pause; null in rows of older servers, which kept the memory. */
  paused_memory: Generated<string | null>;
  lost_reason: Generated<string | null>;
  /** Null if the last wake had kept its memory. */
  resumed_lost_reason: Generated<string | null>;
  /** Generation by whose name the disk is kept; null if it is not known to be. */
  disk_generation: Generated<number | null>;
  /** When the end of the retention is announced; null if it is announced already, or too near to be. */
  retention_notice_at: Generated<number | null>;
  /** Unique in the project among the sandboxes that have not ended; null without a name. */
  name: Generated<string | null>;
  /** JSON of the command that the sandbox begins with; null without one. */
  start_command: Generated<string | null>;
}

/** The activity of a sandbox that one server reports. Only for databases with several servers. */
export interface SandboxActivityTable {
  sandbox_id: string;
  server_id: string;
  /** Whether the server has an execution in the sandbox. */
  running: number;
  last_active_at: number;
  /** Whether a request uses the sandbox. What runs in it by itself is no use. Null in rows of older servers, as the next one. */
  in_use: Generated<number | null>;
  last_used_at: Generated<number | null>;
}

/** What a protocol beside `/v1` keeps of a sandbox. */
export interface SandboxNoteTable {
  sandbox_id: string;
  name: string;
  value: string;
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
  /** Id of the server that started the command or waits for its end. */
  watched_by: Generated<string | null>;
  /** Signal that is sent to the command when its sandbox wakes. */
  pending_signal: Generated<string | null>;
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
  /** Id of the key that created it, with which it ends. */
  api_key_id: string | null;
  created_at: number;
  /** Null if the preview lasts as long as its sandbox. */
  expires_at: number | null;
  deleted_at: number | null;
  idempotency_record_id: string | null;
}

export interface ArtifactTable {
  id: string;
  org_id: string;
  project_id: string;
  sandbox_id: string;
  /** Null unless a workspace run exported it. */
  workspace_run_id: Generated<string | null>;
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

/** A content of artifacts whose removal was sent to a bucket and not answered yet. */
export interface ContentRemovalTable {
  sha256: string;
  /** When the request does not arrive any more. */
  until: number;
}
