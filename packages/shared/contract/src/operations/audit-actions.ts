import type { OperationId } from './index.ts';

/** The audit event of an operation. */
export interface AuditAction {
  readonly action: string;
  /** The resource that the event is about: the name of its field in the response, and of its `<name>Id` in the path. */
  readonly target:
    | 'sandbox'
    | 'context'
    | 'command'
    | 'artifact'
    | 'preview'
    | 'project'
    | 'apiKey'
    | 'secret'
    | 'template'
    | 'build'
    | 'webhook'
    | 'workspaceRun';
}

/** The audit event of a sandbox that a protocol beside `/v1` created with ports that need no token. */
export const PORTS_PUBLISHED: AuditAction = { action: 'sandbox.ports_published', target: 'sandbox' };

/**
 * The audit event of every operation. `none`: the operation changes nothing, or belongs to the work inside a sandbox
 * (code runs, files, input of commands), whose sandbox has events. A refusal is an event for every operation.
 */
export const AUDIT_ACTIONS: Record<OperationId, AuditAction | 'none'> = {
  createSandbox: { action: 'sandbox.created', target: 'sandbox' },
  getOrCreateSandbox: { action: 'sandbox.created', target: 'sandbox' },
  getSandboxByName: 'none',
  listSandboxes: 'none',
  getSandbox: 'none',
  updateSandbox: { action: 'sandbox.updated', target: 'sandbox' },
  setSandboxTtl: { action: 'sandbox.extended', target: 'sandbox' },
  extendSandbox: { action: 'sandbox.extended', target: 'sandbox' },
  pauseSandbox: { action: 'sandbox.paused', target: 'sandbox' },
  resumeSandbox: { action: 'sandbox.resumed', target: 'sandbox' },
  killSandbox: { action: 'sandbox.killed', target: 'sandbox' },
  getSandboxMetrics: 'none',
  listSandboxMetrics: 'none',

  createContext: { action: 'context.created', target: 'context' },
  listContexts: 'none',
  getContext: 'none',
  deleteContext: { action: 'context.deleted', target: 'context' },
  interruptContext: { action: 'context.interrupted', target: 'context' },
  restartContext: { action: 'context.restarted', target: 'context' },
  runCode: 'none',
  streamCode: 'none',

  createCommand: { action: 'command.started', target: 'command' },
  runCommand: { action: 'command.started', target: 'command' },
  startCommand: { action: 'command.started', target: 'command' },
  listCommands: 'none',
  getCommand: 'none',
  listCommandLogs: 'none',
  streamCommand: 'none',
  writeCommandStdin: 'none',
  resizeCommand: 'none',
  killCommand: { action: 'command.killed', target: 'command' },
  openPty: { action: 'terminal.opened', target: 'sandbox' },

  readFile: 'none',
  writeFile: 'none',
  listFiles: 'none',
  statFile: 'none',
  makeDirectory: 'none',
  moveFile: 'none',
  copyFile: 'none',
  deleteFile: 'none',
  readArchive: 'none',
  writeArchive: 'none',
  watchFiles: 'none',

  exportArtifact: { action: 'artifact.created', target: 'artifact' },
  listArtifacts: 'none',
  getArtifact: 'none',
  downloadArtifact: 'none',
  createArtifactDownloadUrl: { action: 'artifact.link_created', target: 'artifact' },
  deleteArtifact: { action: 'artifact.deleted', target: 'artifact' },

  openPreview: { action: 'preview.created', target: 'preview' },
  listSandboxPreviews: 'none',
  listPreviews: 'none',
  getPreview: 'none',
  deletePreview: { action: 'preview.deleted', target: 'preview' },

  createTemplate: { action: 'template.created', target: 'template' },
  listTemplates: 'none',
  getTemplate: 'none',
  updateTemplate: { action: 'template.updated', target: 'template' },
  deleteTemplate: { action: 'template.deleted', target: 'template' },
  listTemplateVersions: 'none',
  createTemplateBuild: { action: 'template_build.created', target: 'build' },
  inspectImage: 'none',
  listTemplateBuilds: 'none',
  getTemplateBuild: 'none',
  listTemplateBuildLogs: 'none',
  streamTemplateBuildLogs: 'none',
  cancelTemplateBuild: { action: 'template_build.canceled', target: 'build' },

  createApiKey: { action: 'api_key.created', target: 'apiKey' },
  listApiKeys: 'none',
  getCurrentApiKey: 'none',
  getApiKey: 'none',
  rotateApiKey: { action: 'api_key.rotated', target: 'apiKey' },
  revokeApiKey: { action: 'api_key.revoked', target: 'apiKey' },

  createProject: { action: 'project.created', target: 'project' },
  listProjects: 'none',
  getProject: 'none',
  updateProject: { action: 'project.updated', target: 'project' },
  deleteProject: { action: 'project.deleted', target: 'project' },

  listQuotas: 'none',

  listUsage: 'none',
  getSandboxUsage: 'none',

  createSecret: { action: 'secret.created', target: 'secret' },
  listSecrets: 'none',
  getSecret: 'none',
  updateSecret: { action: 'secret.updated', target: 'secret' },
  deleteSecret: { action: 'secret.deleted', target: 'secret' },

  listEvents: 'none',
  streamEvents: 'none',

  createWebhook: { action: 'webhook.created', target: 'webhook' },
  listWebhooks: 'none',
  getWebhook: 'none',
  updateWebhook: { action: 'webhook.updated', target: 'webhook' },
  deleteWebhook: { action: 'webhook.deleted', target: 'webhook' },
  rotateWebhookSecret: { action: 'webhook.secret_rotated', target: 'webhook' },
  testWebhook: { action: 'webhook.tested', target: 'webhook' },
  listWebhookDeliveries: 'none',
  resendWebhookDelivery: { action: 'webhook.delivery_resent', target: 'webhook' },

  createWorkspaceRun: { action: 'workspace_run.created', target: 'workspaceRun' },
  uploadWorkspaceArchive: { action: 'workspace_run.archived', target: 'workspaceRun' },
  createArchiveTransfer: { action: 'workspace_run.transfer_created', target: 'workspaceRun' },
  finalizeArchive: { action: 'workspace_run.archived', target: 'workspaceRun' },
  cancelWorkspaceRun: { action: 'workspace_run.canceled', target: 'workspaceRun' },
  startWorkspaceRun: { action: 'workspace_run.started', target: 'workspaceRun' },
  listWorkspaceRuns: 'none',
  getWorkspaceRun: 'none',
  listWorkspaceRunEvents: 'none',
  streamWorkspaceRunEvents: 'none',

  listAuditEvents: 'none',
};
