import type { CreateWorkspaceRunBody, WorkspaceRun as WorkspaceRunInfo, WorkspaceRunStatus } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { labelQuery, type PagedList, pagedList, type SelectionOptions } from './paged-list.ts';
import type { CallOptions } from './request.ts';
import { type RunWorkspaceOptions, runWorkspace, type StartWorkspaceOptions, startWorkspace } from './run-workspace.ts';
import { WorkspaceRun } from './workspace-run.ts';

export interface ListWorkspaceRunsOptions extends SelectionOptions {
  projectId?: string | undefined;
  status?: WorkspaceRunStatus | undefined;
  /** Labels that the run must have, all of them. */
  metadata?: Record<string, string> | undefined;
}

/** The workspace runs that the key can see. */
export class WorkspaceRuns {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /**
   * Packs a directory, uploads it, runs the command in a new sandbox, and waits for the end. A failing command does not
   * throw: see `info.status` and `info.exitCode`.
   *
   * ```ts
   * const run = await cloche.workspaceRuns.run({ directory: '.', command: 'make test', artifacts: ['reports/*.xml'] });
   * console.log(run.info.status, (await run.output()).stdout);
   * ```
   *
   * A run whose upload fails or is aborted is canceled. When an open run cannot be followed any more, for example
   * because the service is unreachable, it goes on. With the same `idempotencyKey`, a further call follows it.
   */
  run(options: RunWorkspaceOptions): Promise<WorkspaceRun> {
    return runWorkspace(this.#client, options);
  }

  /** Packs, uploads and starts as `run` does, and returns while the command runs. Aborting cancels until then. */
  start(options: StartWorkspaceOptions): Promise<WorkspaceRun> {
    return startWorkspace(this.#client, options);
  }

  /** Creates a run, which next takes an archive. */
  async create(body: CreateWorkspaceRunBody, options: CallOptions = {}): Promise<WorkspaceRun> {
    const { workspaceRun } = await this.#client.call('createWorkspaceRun', { ...options, body });
    return new WorkspaceRun(this.#client, workspaceRun);
  }

  /** Lists runs, newest first. */
  list(options: ListWorkspaceRunsOptions = {}): PagedList<WorkspaceRun> {
    const { metadata, projectId, status, ...call } = options;
    const query = { projectId, status, ...labelQuery(metadata) };
    const show = (info: WorkspaceRunInfo) => new WorkspaceRun(this.#client, info);
    return pagedList(this.#client, 'listWorkspaceRuns', { ...call, query }, show);
  }

  /** @throws {ClocheError} `not_found` */
  async get(workspaceRunId: string, options: CallOptions = {}): Promise<WorkspaceRun> {
    // Ids are opaque, so only the service can check them.
    const params = { workspaceRunId: workspaceRunId as WorkspaceRunInfo['id'] };
    return new WorkspaceRun(
      this.#client,
      (await this.#client.call('getWorkspaceRun', { ...options, params })).workspaceRun,
    );
  }
}
