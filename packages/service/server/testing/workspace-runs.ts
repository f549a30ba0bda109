/** Workspace runs on the database of a world of sandboxes. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  operations,
  type SandboxId,
  type WorkspaceRun,
  type WorkspaceRunEvent,
  type WorkspaceRunId,
} from '@cloche/contract';
import {
  composeRunExecution,
  composeRunRecords,
  type RunExecution,
  type RunRecords,
} from '../src/compose/compose-run-execution.ts';
import { ArtifactContents } from '../src/features/artifacts/artifact-contents.ts';
import { ExportArtifact } from '../src/features/artifacts/export-artifact.ts';
import { KeepArtifact } from '../src/features/artifacts/keep-artifact.ts';
import { LocalStore } from '../src/features/artifacts/store/local-store.ts';
import { Staging } from '../src/features/artifacts/store/staging.ts';
import { AccessFiles } from '../src/features/files/access-files.ts';
import type { SandboxSettings } from '../src/features/sandbox-records/sandbox-settings.ts';
import type { UnpackArchive } from '../src/features/workspace-runs/execution/execute-run.ts';
import type { WorkspaceRunRecord } from '../src/features/workspace-runs/record/workspace-run.ts';
import { WorkspaceRunRepository } from '../src/features/workspace-runs/record/workspace-run-repository.ts';
import { ProjectAccess } from '../src/platform/access/project-access.ts';
import { Changes } from '../src/platform/base/changes.ts';
import type { Route } from '../src/platform/http/route.ts';
import { SequenceLog } from '../src/platform/sequence-log/sequence-log.ts';
import { SqlProjectRepository } from '../src/platform/tenancy/project-repository.ts';
import { CommandsWorld } from './commands.ts';
import { contentLocksOf } from './coordination.ts';
import { openWorld, type SandboxesWorld } from './sandboxes.ts';
import { DEFAULT_PROJECT, ORG } from './seeded-organizations.ts';
import { SILENT } from './silent.ts';
import type { TestRequest } from './test-request.ts';

export const RUN_ID = 'wrun_1' as WorkspaceRunId;
export const ARCHIVE = { format: 'tar.gz', sizeBytes: 10, sha256: 'a'.repeat(64), entries: 1 } as const;

export function newRun(changes: Partial<WorkspaceRunRecord> = {}): WorkspaceRunRecord {
  return {
    id: RUN_ID,
    orgId: ORG,
    projectId: DEFAULT_PROJECT,
    status: 'awaiting_archive',
    settings: {
      command: 'make test',
      cwd: '/workspace',
      timeoutMs: 600_000,
      env: { TOKEN: 'hidden' },
      secrets: {},
      resources: { cpu: 1, memoryMb: 512, diskMb: 512, pids: 128 },
      networkPolicy: { mode: 'unrestricted' },
      templateId: 'tpl_1',
      templateSlug: 'python-node',
      templateVersion: '1',
      artifacts: ['dist/**'],
    },
    templateVersionId: 'tplv_1',
    metadata: {},
    autoStart: false,
    archive: undefined,
    step: undefined,
    attempt: 1,
    archiveAttempts: 0,
    sandboxId: undefined,
    outcome: undefined,
    artifactIds: [],
    createdAt: 1,
    queuedAt: undefined,
    startedAt: undefined,
    cancelRequestedAt: undefined,
    finishedAt: undefined,
    startRecordId: undefined,
    idempotencyRecordId: undefined,
    ...changes,
  };
}

export function runRepositoryOf(world: SandboxesWorld): WorkspaceRunRepository {
  const runLog = new SequenceLog(world, { keptBytes: 1_000_000 });
  return new WorkspaceRunRepository({ ...world, runLog, runChanges: new Changes() });
}

/** A world of sandboxes whose server executes workspace runs. Archives are not unpacked: `unpack` may be replaced. */
export class RunsWorld extends CommandsWorld {
  readonly serverIds: string[] = [];
  readonly servers: RunExecution[] = [];
  exportArtifact!: ExportArtifact;
  unpack: UnpackArchive['unpack'] = async () => undefined;
  #folder: string | undefined;
  #records: RunRecords | undefined;

  override get routes(): readonly Route[] {
    return [...super.routes, ...(this.servers.at(-1)?.routes ?? [])];
  }

  override async start(): Promise<void> {
    await super.start();
    await this.startServer();
  }

  /** Starts a further server of the same database. Its routes are called from now on. */
  async startServer(serverId = `srv_${this.servers.length}`): Promise<RunExecution> {
    const { core } = this.server;
    const files = new AccessFiles(core);
    // Shared, so that each server learns at once of what another has changed.
    this.#records ??= composeRunRecords(this);
    this.#folder ??= mkdtempSync(join(tmpdir(), 'cloche-runs-'));
    const store = new LocalStore(this.#folder);
    const contents = new ArtifactContents({ ...this, locks: contentLocksOf(this), store, log: SILENT });
    const keepArtifact = new KeepArtifact({
      ...this,
      contents,
      staging: new Staging(join(this.#folder, 'staging'), this.ids),
      settings: { url: '', stagingDir: this.#folder, maxBytes: 2 ** 20, retentionMs: undefined, publicUrl: undefined },
    });
    this.exportArtifact = new ExportArtifact(core.access, files, this.artifacts, keepArtifact);
    const server = composeRunExecution({
      ...this,
      ...this.#records,
      projects: new ProjectAccess(new SqlProjectRepository(this.db)),
      sandboxes: core,
      createCommand: this.createCommand,
      files,
      exportArtifact: this.exportArtifact,
      unpackArchive: { unpack: (...request) => this.unpack(...request) },
      settings: this.settings,
      serverId,
      log: SILENT,
    });
    this.servers.push(server);
    await server.start();
    return server;
  }

  /** Creates a run whose archive is stored. */
  async archived(body: Record<string, unknown>, call: TestRequest = {}): Promise<WorkspaceRunId> {
    const { id } = (await this.call(operations.createWorkspaceRun, { ...call, body })).workspaceRun;
    const runs = runRepositoryOf(this);
    const record = await runs.find(id);
    if (!record) throw new Error(`${id} is gone`);
    await runs.transition(record, 'archive', { archive: ARCHIVE });
    return id;
  }

  /** Creates and starts a run of a program of the toy language. */
  async startRun(program: string, body: Record<string, unknown> = {}, call: TestRequest = {}): Promise<WorkspaceRunId> {
    const workspaceRunId = await this.archived({ command: ['sh', program], ...body }, call);
    await this.call(operations.startWorkspaceRun, { ...call, params: { workspaceRunId } });
    return workspaceRunId;
  }

  async getRun(workspaceRunId: string): Promise<WorkspaceRun> {
    return (await this.call(operations.getWorkspaceRun, { params: { workspaceRunId } })).workspaceRun;
  }

  async finished(workspaceRunId: string): Promise<WorkspaceRun> {
    const query = { waitFor: 'finished', waitMs: 60_000 };
    return (await this.call(operations.getWorkspaceRun, { params: { workspaceRunId }, query })).workspaceRun;
  }

  async cancelRun(workspaceRunId: string): Promise<WorkspaceRun> {
    return (await this.call(operations.cancelWorkspaceRun, { params: { workspaceRunId } })).workspaceRun;
  }

  /** Returns the run when its command is running. */
  async running(workspaceRunId: string): Promise<WorkspaceRun & { readonly sandboxId: SandboxId }> {
    let run = await this.getRun(workspaceRunId);
    await this.until(async () => {
      run = await this.getRun(workspaceRunId);
      return run.sandboxId !== undefined && (await this.listCommands(run.sandboxId)).length > 0;
    });
    return run as WorkspaceRun & { readonly sandboxId: SandboxId };
  }

  async eventsOf(workspaceRunId: string): Promise<WorkspaceRunEvent[]> {
    const query = { limit: 1000 };
    return (await this.call(operations.listWorkspaceRunEvents, { params: { workspaceRunId }, query })).data;
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    this.driver.isDown = false;
    this.driver.stuck.clear();
    await Promise.all(this.servers.map((server) => server.stop()));
    // Ends commands that still run, with their timers.
    for (const { sandboxId, generation } of this.driver.instances()) await this.driver.stop(sandboxId, generation);
    await super[Symbol.asyncDispose]();
    if (this.#folder) rmSync(this.#folder, { recursive: true, force: true });
  }
}

export function openRuns(settings: Partial<SandboxSettings> = {}): Promise<RunsWorld> {
  return openWorld(RunsWorld, settings);
}
