import { AppError } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import type { IdSource } from '../../platform/base/id-source.ts';
import type { Call } from '../../platform/call/call.ts';
import type { Transaction } from '../../platform/db/transactions.ts';
import { QuotaRefusal } from '../quotas/quota-refusal.ts';
import type { Quotas, RequireRoom } from '../quotas/quotas.ts';
import type { ArtifactRecord } from './artifact.ts';
import type { ArtifactContents } from './artifact-contents.ts';
import type { ArtifactRepository } from './artifact-repository.ts';
import type { ArtifactSettings } from './artifact-settings.ts';
import { StoreError } from './store/artifact-store.ts';
import { ContentTooLargeError, type Incoming, type Staged, type Staging } from './store/staging.ts';

export type NewArtifact = Pick<
  ArtifactRecord,
  | 'orgId'
  | 'projectId'
  | 'sandboxId'
  | 'workspaceRunId'
  | 'name'
  | 'path'
  | 'contentType'
  | 'metadata'
  | 'idempotencyRecordId'
>;

export interface KeepOptions {
  /** Called in the transaction that inserts the artifact. If it rejects, there is no artifact. */
  readonly guard?: (tx: Transaction) => Promise<void>;
}

export interface KeepArtifactDeps {
  readonly contents: ArtifactContents;
  readonly artifacts: ArtifactRepository;
  readonly quotas: Quotas;
  readonly staging: Staging;
  readonly settings: ArtifactSettings;
  readonly clock: Clock;
  readonly ids: IdSource;
}

/** Size from which receiving a content costs more than asking for its quota before. */
const LARGE_BYTES = 1024 * 1024;

/** Creates artifacts from byte streams. */
export class KeepArtifact {
  readonly #deps: KeepArtifactDeps;

  constructor(deps: KeepArtifactDeps) {
    this.#deps = deps;
  }

  /**
   * Creates one artifact per idempotency record. Returns the existing artifact if an earlier attempt created it.
   *
   * @throws AppError `quota_exceeded`; the content is not stored then
   */
  async keep(
    { signal, audit }: Pick<Call, 'signal' | 'audit'>,
    artifact: NewArtifact,
    content: Omit<Incoming, 'orgId'>,
    { guard }: KeepOptions = {},
  ): Promise<ArtifactRecord> {
    const { contents, artifacts, quotas, settings, clock, ids } = this.#deps;
    await this.#refuseByAnnouncement(artifact, content);
    await using staged = await this.#take({ ...content, orgId: artifact.orgId }, signal);
    const createdAt = clock.now();
    const record: ArtifactRecord = {
      ...artifact,
      id: ids.next('art_'),
      sizeBytes: staged.sizeBytes,
      sha256: staged.sha256,
      createdAt,
      expiresAt: settings.retentionMs === undefined ? undefined : createdAt + settings.retentionMs,
      deletedAt: undefined,
    };
    const admit = async (tx: Transaction, requireRoom: RequireRoom) => {
      const isCounted = await artifacts.hasContent(record, tx);
      await requireRoom({ artifactBytes: isCounted ? 0 : record.sizeBytes });
    };
    // `insert` checks the quota again, and decides. This first check refuses nearly every artifact over the quota
    // before its content is stored.
    await quotas.admit(record, admit);
    const insertIn = async (tx: Transaction, requireRoom: RequireRoom) => {
      await guard?.(tx);
      await admit(tx, requireRoom);
      const inserted = await artifacts.insert(record, tx);
      if (inserted) await audit?.append(tx, inserted);
      return inserted;
    };
    const insert = (tx: Transaction | undefined) => quotas.admit(record, insertIn, { announces: false, tx });
    const kept = await contents.keep(staged, artifact.orgId, insert, signal).catch(async (error) => {
      if (error instanceof QuotaRefusal) await quotas.announce(record, error.use);
      return asAppError(error);
    });
    if (kept) return kept;
    const made = await artifacts.findByIdempotencyRecord(artifact.idempotencyRecordId ?? '');
    if (!made) throw new Error(`the artifact of idempotency record ${artifact.idempotencyRecordId} is gone`);
    return made;
  }

  /** Refuses a content that the quota has no room for before it is received, unless it may be one that is counted. */
  async #refuseByAnnouncement(artifact: NewArtifact, { sizeBytes }: Omit<Incoming, 'orgId'>): Promise<void> {
    const { artifacts, quotas, settings } = this.#deps;
    if (sizeBytes === undefined || sizeBytes < LARGE_BYTES) return;
    if (sizeBytes > settings.maxBytes) throw tooLarge(settings);
    await quotas.admit(artifact, async (tx, requireRoom) => {
      if (!(await artifacts.hasSize(artifact.projectId, sizeBytes, tx)))
        await requireRoom({ artifactBytes: sizeBytes });
    });
  }

  async #take(content: Incoming, signal: AbortSignal): Promise<Staged> {
    const { staging, settings } = this.#deps;
    try {
      return await staging.take(content, settings.maxBytes, signal);
    } catch (error) {
      if (error instanceof ContentTooLargeError) throw tooLarge(settings);
      if (error instanceof Error && 'code' in error && error.code === 'ENOSPC') {
        throw new AppError('unavailable', 'The service has no space for artifacts; delete some.', { cause: error });
      }
      throw error;
    }
  }
}

function tooLarge({ maxBytes }: ArtifactSettings): AppError {
  return new AppError('payload_too_large', `An artifact has at most ${maxBytes} bytes; export less in one request.`);
}

function asAppError(error: unknown): never {
  if (!(error instanceof StoreError)) throw error;
  throw new AppError('unavailable', 'The artifact store does not respond; try again.', { cause: error });
}
