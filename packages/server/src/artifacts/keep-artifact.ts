import type { Readable } from 'node:stream';
import type { OrgId } from '@cloche/contract';
import { AppError } from '../base/app-error.ts';
import type { Clock } from '../base/clock.ts';
import type { IdSource } from '../base/id-source.ts';
import type { ArtifactRecord } from './artifact.ts';
import type { ArtifactContents } from './artifact-contents.ts';
import type { ArtifactRepository } from './artifact-repository.ts';
import type { ArtifactSettings } from './artifact-settings.ts';
import { StoreError } from './store/artifact-store.ts';
import { ContentTooLargeError, type Staged, type Staging } from './store/staging.ts';

export type NewArtifact = Pick<
  ArtifactRecord,
  'orgId' | 'projectId' | 'sandboxId' | 'name' | 'path' | 'contentType' | 'metadata' | 'idempotencyRecordId'
>;

/** Creates artifacts from byte streams. */
export class KeepArtifact {
  readonly #contents: ArtifactContents;
  readonly #artifacts: ArtifactRepository;
  readonly #staging: Staging;
  readonly #settings: ArtifactSettings;
  readonly #clock: Clock;
  readonly #ids: IdSource;
  /** Bytes per organization that are being stored and not yet counted by a record. */
  readonly #pending = new Map<OrgId, number>();

  constructor(
    contents: ArtifactContents,
    artifacts: ArtifactRepository,
    staging: Staging,
    settings: ArtifactSettings,
    clock: Clock,
    ids: IdSource,
  ) {
    this.#contents = contents;
    this.#artifacts = artifacts;
    this.#staging = staging;
    this.#settings = settings;
    this.#clock = clock;
    this.#ids = ids;
  }

  /** Creates one artifact per idempotency record. Returns the existing artifact if an earlier attempt created it. */
  async keep(artifact: NewArtifact, source: Readable, signal?: AbortSignal): Promise<ArtifactRecord> {
    await this.#requireRoom(artifact.orgId, 1);
    await using staged = await this.#take(source, signal);
    using _ = await this.#admit(artifact.orgId, staged.sizeBytes);
    const createdAt = this.#clock.now();
    const { retentionMs } = this.#settings;
    const record: ArtifactRecord = {
      ...artifact,
      id: this.#ids.next('art_'),
      sizeBytes: staged.sizeBytes,
      sha256: staged.sha256,
      createdAt,
      expiresAt: retentionMs === undefined ? undefined : createdAt + retentionMs,
      deletedAt: undefined,
    };
    if (await this.#contents.keep(staged, record).catch(asAppError)) return record;
    const made = await this.#artifacts.findByIdempotencyRecord(artifact.idempotencyRecordId ?? '');
    if (!made) throw new Error(`the artifact of idempotency record ${artifact.idempotencyRecordId} is gone`);
    return made;
  }

  /** Counts `bytes` as pending until the result is disposed. @throws AppError `quota_exceeded` */
  async #admit(orgId: OrgId, bytes: number): Promise<Disposable> {
    const count = (more: number) => {
      const pending = (this.#pending.get(orgId) ?? 0) + more;
      if (pending > 0) this.#pending.set(orgId, pending);
      else this.#pending.delete(orgId);
    };
    count(bytes);
    try {
      await this.#requireRoom(orgId);
    } catch (error) {
      count(-bytes);
      throw error;
    }
    return { [Symbol.dispose]: () => count(-bytes) };
  }

  /** Checks that the quota has room for the pending bytes and `bytes` more. */
  async #requireRoom(orgId: OrgId, bytes = 0): Promise<void> {
    const limit = this.#settings.maxOrganizationBytes;
    if (limit === undefined) return;
    const kept = await this.#artifacts.usedBytes(orgId);
    const used = kept + (this.#pending.get(orgId) ?? 0) + bytes;
    if (used <= limit) return;
    throw new AppError(
      'quota_exceeded',
      `The artifacts of the organization take ${kept} bytes of its limit of ${limit}, and this artifact does not fit; delete some.`,
      { details: { quota: 'artifact_bytes', limit, used: kept } },
    );
  }

  async #take(source: Readable, signal: AbortSignal | undefined): Promise<Staged> {
    const { maxBytes } = this.#settings;
    try {
      return await this.#staging.take(source, maxBytes, signal);
    } catch (error) {
      if (error instanceof ContentTooLargeError) {
        throw new AppError(
          'payload_too_large',
          `An artifact has at most ${maxBytes} bytes; export less in one request.`,
        );
      }
      if (error instanceof Error && 'code' in error && error.code === 'ENOSPC') {
        throw new AppError('unavailable', 'The service has no space for artifacts; delete some.', { cause: error });
      }
      throw error;
    }
  }
}

function asAppError(error: unknown): never {
  if (!(error instanceof StoreError)) throw error;
  throw new AppError('unavailable', 'The artifact store does not respond; try again.', { cause: error });
}
