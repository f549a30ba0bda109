import type { CreateWorkspaceRunBody, WorkspaceRunEvent } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { ClocheError } from './cloche-error.ts';
import { packWorkspace } from './pack-workspace.ts';
import type { ArchiveProgress, PackDirectory, PackingNote } from './packing/archive-source.ts';
import type { CallOptions } from './request.ts';
import { hasStarted, type WorkspaceArchiveUpload } from './workspace-archive.ts';
import { WorkspaceRun } from './workspace-run.ts';

/** A command and the workspace that it runs on: either `directory` or `archive`. */
export interface StartWorkspaceOptions
  extends Omit<CreateWorkspaceRunBody, 'autoStart'>,
    Omit<CallOptions, 'timeoutMs'> {
  /** Directory to pack, without what its `.gitignore` and `.clocheignore` files leave out. Not in browsers. */
  directory?: string | undefined;
  archive?: WorkspaceArchiveUpload | undefined;
  /** Receives the run when it was created, before anything is uploaded. */
  onCreated?: ((run: WorkspaceRun) => void | Promise<void>) | undefined;
  /** Receives how much of a directory was packed or sent. */
  onProgress?: ((progress: ArchiveProgress) => void) | undefined;
  /** Receives what the archive lacks, such as sockets, and files that changed while they were packed. */
  onNote?: ((note: PackingNote) => void) | undefined;
}

export interface RunWorkspaceOptions extends StartWorkspaceOptions {
  /** Receives output, statuses and artifacts as they come. */
  onEvent?: ((event: WorkspaceRunEvent) => void | Promise<void>) | undefined;
  /** Aborting cancels the run. */
  signal?: AbortSignal | undefined;
}

/** Time for the request that cancels a run after a failure. */
const CANCEL_MS = 5000;

/** Takes a workspace through a run, to its end. */
export async function runWorkspace(
  client: ApiClient,
  { onEvent, ...options }: RunWorkspaceOptions,
): Promise<WorkspaceRun> {
  const run = await startWorkspace(client, options);
  const calls = { signal: options.signal, maxRetries: options.maxRetries };
  try {
    if (!onEvent) return await run.wait(calls);
    for await (const event of run.events(calls)) await onEvent(event);
    return run;
  } catch (error) {
    if (options.signal?.aborted) await cancel(run);
    throw error;
  }
}

/** Packs a workspace, creates a run, uploads the archive and starts the run. Cancels the run if that fails. */
export async function startWorkspace(client: ApiClient, options: StartWorkspaceOptions): Promise<WorkspaceRun> {
  const { directory, archive, onCreated, onProgress, onNote, signal, idempotencyKey, maxRetries, ...body } = options;
  const calls = { signal, maxRetries };
  // On the same machine, compressing takes longer than sending.
  const packing = { compress: !isLoopback(client.url), onProgress, onNote, signal };
  await using packed = directory === undefined ? undefined : await packWorkspace(await packer(), directory, packing);
  const upload = archive ?? packed;
  if (!upload || (archive && directory !== undefined)) {
    throw new ClocheError('invalid_options', 'Give either `directory` or `archive`.');
  }
  const { workspaceRun } = await client.call('createWorkspaceRun', { ...calls, idempotencyKey, body });
  const run = new WorkspaceRun(client, workspaceRun);
  try {
    await onCreated?.(run);
    await startOnce(run, upload, { ...calls, ...(idempotencyKey && { idempotencyKey: `${idempotencyKey}:start` }) });
    return run;
  } catch (error) {
    await cancel(run);
    throw error;
  }
}

/** Loads the code for packing, which needs Node.js. */
async function packer(): Promise<PackDirectory> {
  return (await import('#pack-directory')).packDirectory;
}

function isLoopback(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.');
}

/** Uploads the archive and starts the run, unless an earlier call with the same key did. */
async function startOnce(run: WorkspaceRun, upload: WorkspaceArchiveUpload, calls: StartOptions): Promise<void> {
  const { idempotencyKey, ...uploading } = calls;
  try {
    await run.uploadArchive(upload, uploading);
  } catch (error) {
    if (idempotencyKey === undefined || !hasStarted(error)) throw error;
  }
  await run.start({ ...calls });
}

interface StartOptions {
  readonly signal: AbortSignal | undefined;
  readonly maxRetries: number | undefined;
  readonly idempotencyKey?: string;
}

/** Cancels on a best-effort basis: the error that led here is the one to report. */
async function cancel(run: WorkspaceRun): Promise<void> {
  await run.cancel({ timeoutMs: CANCEL_MS }).catch(() => undefined);
}
