export interface UsageTables {
  sandbox_usage: SandboxUsageTable;
  usage_hours: UsageHourTable;
}

/** Usage of a sandbox that has been counted. Written from its first count on, not at its creation. */
export interface SandboxUsageTable {
  sandbox_id: string;
  /** Increases with each count, so that of two simultaneous counts one takes effect. */
  version: number;
  /** The counters of the instance at the last count, and its generation. */
  generation: number;
  cpu_counter: number;
  egress_counter: number;
  ingress_counter: number;
  /** The time before this is counted. */
  counted_until: number;
  /** 1 if the sandbox has ended, so that no more time is counted. */
  ended: number;
  cpu_ms: number;
  memory_mb_ms: number;
  disk_mb_ms: number;
  paused_ms: number;
  egress_bytes: number;
  ingress_bytes: number;
  runs: number;
  commands: number;
}

/** Usage of all sandboxes of a project in one hour. */
export interface UsageHourTable {
  org_id: string;
  project_id: string;
  /** Beginning of the hour. */
  hour: number;
  sandbox_ms: number;
  cpu_ms: number;
  memory_mb_ms: number;
  disk_mb_ms: number;
  paused_ms: number;
  runs: number;
  commands: number;
  workspace_runs: number;
  egress_bytes: number;
  ingress_bytes: number;
  artifact_bytes: number;
}
