import { randomBytes } from 'node:crypto';
import { LIMITS, type WorkspaceArchiveFormat } from '@cloche/contract';
import { AppError, invalidRequest, unavailable } from '../../../platform/base/app-error.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import { type Audited, type Call, UNAUDITED } from '../../../platform/call/call.ts';
import type { Transactions } from '../../../platform/db/transactions.ts';
import { type ArtifactStore, StoreError } from '../../artifacts/store/artifact-store.ts';
import type { WorkspaceRunRecord } from '../record/workspace-run.ts';
import type { WorkspaceRunRepository } from '../record/workspace-run-repository.ts';
import { notArchivable } from './archivable-run.ts';
import type { ArchiveJudge } from './archive-judge.ts';
import type { ArchiveMetrics } from './archive-metrics.ts';
import type { ArchiveRecord, ArchiveRepository } from './archive-repository.ts';
import type { ArchiveMeasures } from './judge-archive.ts';
import type { RemoveArchives } from './remove-archives.ts';

const MEBIBYTE = 1024 * 1024;
/** Time after which an upload in one request is discarded. Storing a judged archive takes far less. */
const STORE_MS = 3_600_000;

export interface StoreArchiveDeps {
  readonly runs: WorkspaceRunRepository;
  readonly archives: ArchiveRepository;
  readonly store: ArtifactStore;
  readonly judge: ArchiveJudge;
  readonly removeArchives: RemoveArchives;
  readonly metrics: ArchiveMetrics;
  /** Most bytes of archives of an organization that are stored or are being uploaded. */
  readonly maxArchivesBytes: number;
  readonly transactions: Transactions;
  readonly clock: Clock;
}

/** An archive in a file. */
export interface ArchiveFile {
  readonly file: string;
  readonly format: WorkspaceArchiveFormat;
  readonly sizeBytes: number;
  readonly sha256: string;
}

/** Judges archives and attaches them to their runs. */
export class StoreArchive {
  readonly #deps: StoreArchiveDeps;

  constructor(deps: StoreArchiveDeps) {
    this.#deps = deps;
  }

  /**
   * Judges an archive, stores it and attaches it to its run. The run's previous archive is removed.
   *
   * @param replaced id of the archive that the run had when the request came
   * @throws AppError `invalid_request` for a refused archive, `conflict` after the start, or if the run got another
   * archive since the request came; the run then keeps its archive
   */
  async store(
    call: Call,
    run: WorkspaceRunRecord,
    archive: ArchiveFile,
    replaced: string | undefined,
  ): Promise<WorkspaceRunRecord> {
    const { store, removeArchives } = this.#deps;
    const measures = await this.judge(call, run, archive, 'body');
    const { file, sizeBytes, sha256 } = archive;
    const record = await this.reserve(UNAUDITED, run, archive, { isTransfer: false, forMs: STORE_MS });
    try {
      await store.put(file, { sha256, sizeBytes, name: record.id }).catch(rejectUnavailable);
      return await this.attach(call, run, record, { measures, replaced });
    } catch (error) {
      await removeArchives.removeFailed(record.id);
      throw error;
    }
  }

  /** Writes the row that owns a content before it is stored. @throws AppError `quota_exceeded` */
  async reserve(
    { audit }: Audited,
    run: WorkspaceRunRecord,
    { format, sizeBytes, sha256 }: Omit<ArchiveFile, 'file'>,
    { isTransfer, forMs }: { isTransfer: boolean; forMs: number },
  ): Promise<ArchiveRecord> {
    const { archives, clock } = this.#deps;
    const id = randomBytes(32).toString('hex');
    const createdAt = clock.now();
    const times = { createdAt, expiresAt: createdAt + forMs };
    const { id: runId, orgId } = run;
    const record = { id, orgId, runId, isTransfer, format, sizeBytes, sha256, ...times };
    const limit = this.#deps.maxArchivesBytes;
    const reserved = await archives.reserve(record, limit, (tx) => audit?.append(tx, run) ?? Promise.resolve());
    if (reserved.status === 'reserved') return record;
    const { used } = reserved;
    const message =
      `The archives of the organization's workspace runs have ${used} of ${limit} bytes, ${sizeBytes} more are requested; ` +
      'cancel runs that are not needed, and wait a day after the end of others.';
    throw new AppError('quota_exceeded', message, { details: { quota: 'workspace_archives', limit, used } });
  }

  /** @throws AppError `invalid_request` for a refused archive */
  async judge(
    { signal }: Call,
    { orgId, settings }: WorkspaceRunRecord,
    { file, format }: ArchiveFile,
    field: 'body' | 'archive',
  ): Promise<ArchiveMeasures> {
    const { judge, metrics } = this.#deps;
    const maxUnpackedBytes = settings.resources.diskMb * MEBIBYTE;
    const archive = { file, format, maxEntries: LIMITS.workspaceArchiveEntries, maxUnpackedBytes };
    const judgement = await metrics.measure(() => judge.judge(archive, orgId, signal));
    if (judgement.status === 'accepted') return judgement;
    const message = `cannot be unpacked: ${judgement.why}. Nothing of it was kept; send a corrected archive`;
    throw invalidRequest({ path: field, message });
  }

  /**
   * Attaches a stored archive to its run.
   *
   * @throws AppError `conflict` after the start, if the upload was discarded, or if the run got another archive since
   * the request came
   */
  async attach(
    call: Audited,
    run: WorkspaceRunRecord,
    archive: ArchiveRecord,
    { measures: { entries }, replaced }: { measures: ArchiveMeasures; replaced: string | undefined },
  ): Promise<WorkspaceRunRecord> {
    const { runs, archives, transactions, removeArchives, clock } = this.#deps;
    const { format, sizeBytes, sha256 } = archive;
    for (let current = run; ; ) {
      const attached = await transactions.run(async (tx) => {
        const options = { tx, ...(current.autoStart ? {} : { call }) };
        const archived = await runs.transition(
          current,
          'archive',
          { archive: { format, sizeBytes, sha256, entries } },
          options,
        );
        if (!archived) return undefined;
        const attachment = await archives.makeCurrent(archive, replaced, tx);
        if (attachment !== 'current') {
          throw new AppError('conflict', NOT_ATTACHED[attachment], { details: { status: current.status } });
        }
        if (!current.autoStart) return archived;
        return runs.transition(archived, 'queue', { queuedAt: clock.now() }, { tx, call });
      });
      if (attached) {
        await removeArchives.removeDiscarded();
        return attached;
      }
      current = await this.#reread(current);
    }
  }

  async #reread(run: WorkspaceRunRecord): Promise<WorkspaceRunRecord> {
    const found = await this.#deps.runs.find(run.id);
    if (!found || !['awaiting_archive', 'archived'].includes(found.status)) throw notArchivable(found ?? run);
    return found;
  }
}

const NOT_ATTACHED = {
  given_up: 'The upload was given up, because it took too long or another one took its place; upload it again.',
  overtaken:
    'Another archive was uploaded to the workspace run meanwhile, and the run keeps it; repeat the request with another ' +
    'Idempotency-Key to replace it.',
};

/** Turns a failure of the store into the error for the client. */
export function rejectUnavailable(error: unknown): never {
  throw error instanceof StoreError ? unavailable('The store of archives does not respond; try again.', error) : error;
}
