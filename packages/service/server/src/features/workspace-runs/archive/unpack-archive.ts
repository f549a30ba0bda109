import { pipeline, type Readable } from 'node:stream';
import type { WorkspaceRunId } from '@cloche/contract';
import type { AgentUnpacked, ArchiveAttempt } from '@cloche/protocol';
import { type AgentFiles, FileError } from '@cloche/runtime/agent-files';
import { AppError } from '../../../platform/base/app-error.ts';
import { type ArtifactStore, ContentMissingError, type NewContent } from '../../artifacts/store/artifact-store.ts';
import { DigestCheck } from '../../artifacts/store/digest-check.ts';
import { openVerified } from '../../artifacts/store/verified-file.ts';
import { fileError } from '../../sandbox-records/agent-failures.ts';
import type { ArchiveRepository } from './archive-repository.ts';
import { rejectUnavailable } from './store-archive.ts';

const WORKSPACE = '/workspace';

export interface RunArchiveAttempt extends ArchiveAttempt {
  readonly runId: WorkspaceRunId;
}

/** Unpacks the archives of runs in their sandboxes. */
export class UnpackArchive {
  readonly #archives: ArchiveRepository;
  readonly #store: ArtifactStore;

  constructor(archives: ArchiveRepository, store: ArtifactStore) {
    this.#archives = archives;
    this.#store = store;
  }

  /**
   * Unpacks the archive of a run into `/workspace` of its sandbox, with the rights of the sandbox's user. Nothing
   * appears in `/workspace` before the agent has read the whole archive; when this resolves, everything is there. Can
   * be repeated after a failure until the command is started, as a later attempt.
   *
   * @param attempt the run, and a number larger than those of its earlier attempts, after which the agent refuses these
   * @param files the files of the run's sandbox
   * @throws AppError `unavailable` if the store does not respond; with any other code, a repetition would fail too
   */
  async unpack(attempt: RunArchiveAttempt, files: AgentFiles, signal: AbortSignal): Promise<AgentUnpacked> {
    const { runId } = attempt;
    const archive = await this.#archives.findCurrent(runId);
    if (!archive) throw removed(runId);
    const { id, sha256, sizeBytes } = archive;
    let stored: Readable | undefined;
    try {
      const source = await this.#open(id, { sha256, sizeBytes }, signal);
      stored = source;
      return await files.unarchive(WORKSPACE, { sizeBytes, open: () => source, attempt }, signal);
    } catch (error) {
      if (error instanceof ContentMissingError) throw removed(runId, error);
      throw error instanceof FileError ? fileError(error, 'archive') : rejectUnavailable(error);
    } finally {
      stored?.destroy();
    }
  }

  /** Opens a stored archive. Damaged bytes end it before its end, so that the agent keeps nothing. */
  async #open(id: string, content: NewContent, signal: AbortSignal): Promise<Readable> {
    const file = this.#store.fileOf(id);
    if (file !== undefined) {
      return openVerified(file, content).catch((error) => {
        throw new ContentMissingError(id, { cause: error });
      });
    }
    const stored = await this.#store.read(id, undefined, signal);
    return pipeline(stored, new DigestCheck(content.sha256, content.sizeBytes), () => undefined);
  }
}

function removed(runId: WorkspaceRunId, cause?: unknown): AppError {
  return new AppError('not_found', `The archive of the workspace run "${runId}" was removed.`, { cause });
}
