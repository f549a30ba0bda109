import type { CodeContext, CodeRun, Command, Sandbox, WorkspaceRun } from '@cloche/contract';

export function sampleSandbox(changes: Partial<Sandbox> = {}): Sandbox {
  return {
    id: 'sbx_1',
    orgId: 'org_1',
    projectId: 'prj_1',
    status: 'creating',
    templateId: 'tpl_1',
    templateSlug: 'python-node',
    templateVersion: '1',
    templateVersionId: 'tplv_1',
    ttlMs: 3_600_000,
    expiresAt: '2026-01-01T01:00:00.000Z',
    pause: { onExpiry: false, memory: 'prefer', wake: 'requests', wakeTtlMs: 3_600_000, retainMs: 2_592_000_000 },
    metadata: {},
    networkPolicy: { mode: 'unrestricted' },
    resources: { cpu: 1, memoryMb: 1024, diskMb: 2048, pids: 512 },
    createdAt: '2026-01-01T00:00:00.000Z',
    sessionStartedAt: '2026-01-01T00:00:00.000Z',
    ...changes,
  };
}

export function sampleContext(changes: Partial<CodeContext> = {}): CodeContext {
  return {
    id: 'cctx_1',
    sandboxId: 'sbx_1',
    language: 'python',
    cwd: '/workspace',
    isDefault: false,
    createdAt: '2026-01-01T00:00:00.000Z',
    ...changes,
  };
}

export function sampleRun(changes: Partial<CodeRun> = {}): CodeRun {
  return {
    sandboxId: 'sbx_1',
    contextId: 'cctx_1',
    language: 'python',
    executionCount: 1,
    stdout: '',
    stderr: '',
    outputs: [],
    durationMs: 3,
    ...changes,
  };
}

export function sampleCommand(changes: Partial<Command> = {}): Command {
  return {
    id: 'cmd_1',
    sandboxId: 'sbx_1',
    command: 'line',
    cwd: '/workspace',
    user: 'user',
    background: false,
    status: 'running',
    startedAt: '2026-01-01T00:00:00.000Z',
    ...changes,
  };
}

export function sampleWorkspaceRun(changes: Partial<WorkspaceRun> = {}): WorkspaceRun {
  return {
    id: 'wrun_1',
    orgId: 'org_1',
    projectId: 'prj_1',
    status: 'awaiting_archive',
    command: 'make test',
    cwd: '/workspace',
    timeoutMs: 600_000,
    templateId: 'tpl_1',
    templateSlug: 'python-node',
    templateVersion: '1',
    templateVersionId: 'tplv_1',
    resources: { cpu: 1, memoryMb: 1024, diskMb: 2048, pids: 512 },
    networkPolicy: { mode: 'unrestricted' },
    artifacts: [],
    autoStart: false,
    metadata: {},
    artifactIds: [],
    createdAt: '2026-01-01T00:00:00.000Z',
    ...changes,
  };
}
