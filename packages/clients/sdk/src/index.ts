export type {
  ApiKey,
  Artifact,
  AuditEvent,
  AuditEventPage,
  CodeContext as ContextInfo,
  CodeExecutionError,
  CodeOutput,
  CodeRun,
  CodeRunEvent,
  Command as CommandInfo,
  CommandEvent,
  CommandLogEntry,
  CommandStatus,
  CreateSandboxBody,
  CreateTemplateBody,
  CurrentSandboxMetrics,
  EventPage,
  EventType,
  EventTypeFilter,
  FileEntry,
  FileEvent,
  Language,
  NetworkPolicy,
  Organization,
  OutputFormat,
  Preview,
  Project,
  ProjectQuotas,
  QuotaUse,
  ResourceEvent,
  SandboxMeasurement,
  SandboxMetricLimits,
  SandboxMetrics,
  SandboxStatus,
  SandboxUsage,
  Secret,
  Signal,
  Template,
  TemplateBuild,
  TemplateBuildEvent,
  TemplateBuildLogEntry,
  TemplateFile,
  TemplateRecipe,
  TemplateSetupStep,
  TemplateVersion,
  UpdateTemplateBody,
  UsageRow,
  Webhook,
  WebhookDelivery,
  WorkspaceRun as WorkspaceRunInfo,
  WorkspaceRunEvent,
  WorkspaceRunEventPage,
  WorkspaceRunStatus,
} from '@cloche/contract';
export { ApiClient } from './api-client.ts';
export { ApiKeys, type ApiKeyWithSecret, type CreateApiKeyOptions, type CurrentApiKey } from './api-keys.ts';
export {
  Artifacts,
  type ExportArtifactOptions,
  type ListArtifactsOptions,
  SandboxArtifacts,
} from './artifacts.ts';
export { type AuditEventFilterOptions, AuditEvents, type ListAuditEventsOptions } from './audit-events.ts';
export { type ClientOptions, DEFAULT_URL, type WebSocketClass } from './client-options.ts';
export { Cloche } from './cloche.ts';
export {
  type ClientErrorCode,
  ClocheError,
  type ClocheErrorCode,
  type ErrorDetails,
  isClocheError,
} from './cloche-error.ts';
export { Command } from './command.ts';
export {
  type CommandLine,
  type CommandOptions,
  Commands,
  type RunCommandOptions,
  type StartCommandOptions,
} from './commands.ts';
export { Context } from './context.ts';
export { Contexts, type CreateContextOptions } from './contexts.ts';
export { type EventFilterOptions, Events, type ListEventsOptions } from './events.ts';
export {
  type FileOptions,
  type FileStream,
  Files,
  type ReadFileOptions,
  type TransferOptions,
  type WatchOptions,
  type WriteFileOptions,
} from './files.ts';
export type {
  BuildFollowId,
  CallId,
  DownloadId,
  EventFeedId,
  FollowId,
  RunFeedId,
  StreamId,
} from './operation-kinds.ts';
export { isBinaryOutput, outputBytes } from './output-bytes.ts';
export type { ArchiveProgress, PackingNote } from './packing/archive-source.ts';
export { type Page, PagedList, type PageOptions, type SelectionOptions } from './paged-list.ts';
export { type OpenPreviewOptions, Previews, previewLink } from './previews.ts';
export {
  type CreateProjectOptions,
  type ListProjectsOptions,
  Projects,
  type UpdateProjectOptions,
} from './projects.ts';
export { Pty, type PtyOptions, Ptys } from './pty.ts';
export { type ListQuotasOptions, Quotas } from './quotas.ts';
export type { CallOptions, RequestOf, UploadBytes } from './request.ts';
export { type ContextRef, type RunOptions, runCode, type StreamOptions, streamCode } from './run-code.ts';
export type { RunWorkspaceOptions, StartWorkspaceOptions } from './run-workspace.ts';
export {
  type MetricsOptions,
  type PauseOptions,
  type ResumeOptions,
  Sandbox,
  type SandboxInfo,
  type UpdateSandboxOptions,
} from './sandbox.ts';
export { type ByNameOptions, type ListMetricsOptions, type ListSandboxesOptions, Sandboxes } from './sandboxes.ts';
export { type CreateSecretOptions, Secrets, type UpdateSecretOptions } from './secrets.ts';
export { Templates } from './templates.ts';
export { type ListUsageOptions, Usage } from './usage.ts';
export type { WaitOptions } from './wait-for-end.ts';
export {
  type CreateWebhookOptions,
  type ListDeliveriesOptions,
  type UpdateWebhookOptions,
  Webhooks,
  type WebhookWithSecret,
} from './webhooks.ts';
export type { WorkspaceArchiveUpload } from './workspace-archive.ts';
export { WorkspaceRun } from './workspace-run.ts';
export { type ListWorkspaceRunsOptions, WorkspaceRuns } from './workspace-runs.ts';
