import * as apiKeys from './api-keys.ts';
import * as artifacts from './artifacts.ts';
import * as audit from './audit.ts';
import * as codeContexts from './code-contexts.ts';
import * as codeRuns from './code-runs.ts';
import * as commands from './commands.ts';
import * as events from './events.ts';
import * as files from './files.ts';
import * as metrics from './metrics.ts';
import * as previews from './previews.ts';
import * as projects from './projects.ts';
import * as quotas from './quotas.ts';
import * as sandboxes from './sandboxes.ts';
import * as secrets from './secrets.ts';
import * as templateBuildLogs from './template-build-logs.ts';
import * as templateBuilds from './template-builds.ts';
import * as templates from './templates.ts';
import * as usage from './usage.ts';
import * as webhooks from './webhooks.ts';
import * as workspaceArchives from './workspace-archives.ts';
import * as workspaceRuns from './workspace-runs.ts';

const { SandboxParams: _, ...sandboxOperations } = sandboxes;
const { ContextParams: _context, ContextResponse: _contextAnswer, ...contextOperations } = codeContexts;
const { WorkspaceRunParams: __, WorkspaceRunResponse: ___, ...workspaceRunOperations } = workspaceRuns;
const { TemplateParams: _template, ...templateOperations } = templates;
const { BuildParams: _build, ...templateBuildOperations } = templateBuilds;

/** All operations under `/v1`, by id. The server serves only operations in this table. */
export const operations = {
  ...sandboxOperations,
  ...metrics,
  ...contextOperations,
  ...codeRuns,
  ...commands,
  ...files,
  ...artifacts,
  ...previews,
  ...templateOperations,
  ...templateBuildOperations,
  ...templateBuildLogs,
  ...apiKeys,
  ...projects,
  ...quotas,
  ...usage,
  ...secrets,
  ...events,
  ...webhooks,
  ...workspaceRunOperations,
  ...workspaceArchives,
  ...audit,
} as const;
export type Operations = typeof operations;
export type OperationId = keyof Operations;
