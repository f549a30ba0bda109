import type {
  Artifact,
  WorkspaceRunEvent,
  WorkspaceRunEventPage,
  WorkspaceRun as WorkspaceRunInfo,
} from '@cloche/contract';
import { FINISHED_RUN_STATUSES } from '@cloche/contract/client';
import type { ApiClient } from './api-client.ts';
import { type PagedList, type PageOptions, pagedList } from './paged-list.ts';
import type { CallOptions } from './request.ts';
import { type WaitOptions, waitForEnd } from './wait-for-end.ts';
import { uploadArchive, type WorkspaceArchiveUpload } from './workspace-archive.ts';

const FINISHED: readonly string[] = FINISHED_RUN_STATUSES;

/** A command that runs on an uploaded workspace, in a sandbox of its own. */
export class WorkspaceRun {
  readonly #client: ApiClient;
  #info: WorkspaceRunInfo;

  constructor(client: ApiClient, info: WorkspaceRunInfo) {
    this.#client = client;
    this.#info = info;
  }

  get id(): WorkspaceRunInfo['id'] {
    return this.#info.id;
  }

  /** The last known state; `refresh` updates it. */
  get info(): Readonly<WorkspaceRunInfo> {
    return this.#info;
  }

  /** Whether the last known state is final. */
  get isFinished(): boolean {
    return FINISHED.includes(this.#info.status);
  }

  async refresh(options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.call('getWorkspaceRun', { ...options, params: this.#params }));
  }

  /** Uploads the workspace. Before the run is started, a further archive replaces the first one. */
  async uploadArchive(archive: WorkspaceArchiveUpload, options: CallOptions = {}): Promise<this> {
    this.#info = await uploadArchive(this.#client, this.id, archive, options);
    return this;
  }

  /** Queues the run, which has an archive. @throws {ClocheError} `conflict` if it was started already. */
  async start(options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.call('startWorkspaceRun', { ...options, params: this.#params }));
  }

  /** Ends the command, or keeps a queued run from starting. Does not wait for the end. Idempotent. */
  async cancel(options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.call('cancelWorkspaceRun', { ...options, params: this.#params }));
  }

  /**
   * Waits until the run has finished. Waits up to 30 seconds for an unreachable service, for example while it restarts.
   * @throws {ClocheError} `deadline_exceeded`: the run has not finished.
   */
  async wait(options: WaitOptions = {}): Promise<this> {
    const refresh = async (waitMs: number, callOptions: CallOptions) => {
      const query = { waitFor: 'finished', waitMs } as const;
      this.#take(await this.#client.call('getWorkspaceRun', { ...callOptions, params: this.#params, query }));
    };
    await waitForEnd(
      this.#client,
      { name: `Workspace run ${this.id}`, hasEnded: () => this.isFinished, refresh },
      options,
    );
    return this;
  }

  /** Returns a page of events, oldest first. Continue with `nextSeq` as `afterSeq` while `hasMore`. */
  listEvents({
    afterSeq = 0,
    limit,
    ...options
  }: CallOptions & { afterSeq?: number; limit?: number } = {}): Promise<WorkspaceRunEventPage> {
    const query = { afterSeq, ...(limit === undefined ? {} : { limit }) };
    return this.#client.call('listWorkspaceRunEvents', { ...options, params: this.#params, query });
  }

  /**
   * Yields the events after `afterSeq` and those to come, until the run has finished; `info` is then final. Resumes an
   * interrupted stream without losing or repeating an event. Leaving the loop does not affect the run.
   */
  async *events({
    afterSeq = 0,
    ...options
  }: CallOptions & { afterSeq?: number } = {}): AsyncGenerator<WorkspaceRunEvent, void> {
    const request = { ...options, params: this.#params, query: { afterSeq } };
    for await (const event of this.#client.followRun('streamWorkspaceRunEvents', request)) {
      if (event.type === 'exit') this.#info = event.data;
      else yield event;
    }
  }

  /** Returns the output that the service keeps: 64 MiB at most, without the oldest if there was more. */
  async output(options: CallOptions = {}): Promise<{ stdout: string; stderr: string }> {
    const texts: Record<'stdout' | 'stderr', string[]> = { stdout: [], stderr: [] };
    for (let afterSeq = 0, hasMore = true; hasMore; ) {
      const page = await this.listEvents({ ...options, afterSeq });
      for (const event of page.data) {
        if (event.type === 'stdout' || event.type === 'stderr') texts[event.type].push(event.data);
      }
      ({ nextSeq: afterSeq, hasMore } = page);
    }
    return { stdout: texts.stdout.join(''), stderr: texts.stderr.join('') };
  }

  /** Lists the artifacts that the run exported. */
  artifacts(options: PageOptions = {}): PagedList<Artifact> {
    return pagedList(this.#client, 'listArtifacts', { ...options, query: { workspaceRunId: this.id } });
  }

  get #params() {
    return { workspaceRunId: this.#info.id };
  }

  #take({ workspaceRun }: { workspaceRun: WorkspaceRunInfo }): this {
    this.#info = workspaceRun;
    return this;
  }
}
