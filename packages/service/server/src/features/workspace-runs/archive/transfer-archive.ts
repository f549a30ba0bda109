import { type ArchiveTransfer, type ArchiveTransferBody, LIMITS } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import { AppError, invalidRequest } from '../../../platform/base/app-error.ts';
import { type Clock, timestamp } from '../../../platform/base/clock.ts';
import { LatestOnly } from '../../../platform/base/latest-only.ts';
import type { GivenLink, SignedLinks } from '../../../platform/base/signed-links.ts';
import type { Audited, Call } from '../../../platform/call/call.ts';
import type { Upload } from '../../../platform/http/route.ts';
import type { SignedUpload } from '../../../platform/http/signed-uploads.ts';
import { type ArtifactStore, ContentMissingError } from '../../artifacts/store/artifact-store.ts';
import { ContentTooLargeError, type Staged, type Staging } from '../../artifacts/store/staging.ts';
import type { WorkspaceRunRecord } from '../record/workspace-run.ts';
import { requireArchivable } from './archivable-run.ts';
import type { ArchiveRecord, ArchiveRepository } from './archive-repository.ts';
import type { RemoveArchives } from './remove-archives.ts';
import { rejectUnavailable, type StoreArchive } from './store-archive.ts';

export const UPLOAD_PATH = '/uploads/workspace-archives';

export interface TransferArchiveDeps {
  readonly archives: ArchiveRepository;
  readonly storeArchive: StoreArchive;
  readonly removeArchives: RemoveArchives;
  readonly store: ArtifactStore;
  readonly staging: Staging;
  readonly links: SignedLinks;
  /** Returns the base URL of signed links, without a trailing slash. */
  readonly publicUrl: () => string;
  readonly clock: Clock;
}

/** Receives large archives by signed URLs. */
export class TransferArchive {
  readonly #deps: TransferArchiveDeps;
  /** Uploads that are arriving, by their transfers. */
  readonly #uploads = new LatestOnly();

  constructor(deps: TransferArchiveDeps) {
    this.#deps = deps;
  }

  /** Returns the request that uploads the archive: to the bucket, or else to the service. @throws AppError */
  async create(call: Audited, run: WorkspaceRunRecord, body: ArchiveTransferBody): Promise<ArchiveTransfer> {
    const { storeArchive, removeArchives, store, links, publicUrl } = this.#deps;
    requireArchivable(run);
    const forMs = LIMITS.archiveTransferMs;
    const { id, sha256, sizeBytes, expiresAt } = await storeArchive.reserve(call, run, body, {
      isTransfer: true,
      forMs,
    });
    const signed = await store.signPut({ name: id, sha256, sizeBytes }, forMs);
    await removeArchives.removeDiscarded();
    const own = { url: publicUrl() + links.sign(id, expiresAt), headers: { 'content-length': String(sizeBytes) } };
    return { method: 'PUT', ...(signed ?? own), expiresAt: timestamp(expiresAt) };
  }

  /** Finds the transfer of a signed URL of the service, and receives what a client sends to it. @throws AppError */
  async find(link: GivenLink): Promise<SignedUpload> {
    const { archives, links, clock } = this.#deps;
    if (!links.isValid(link)) {
      throw new AppError('forbidden', 'The upload URL has expired or was changed; create another archive transfer.');
    }
    const transfer = await archives.findTransfer(link.id, clock.now());
    if (!transfer) throw ended();
    const receive = (upload: Upload, signal: AbortSignal) =>
      this.#uploads.replace(transfer.id, signal, (own) => this.#receive(transfer, upload, own));
    return { orgId: transfer.orgId, receive };
  }

  async #receive(transfer: ArchiveRecord, upload: Upload, signal: AbortSignal): Promise<void> {
    const { archives, store, staging, clock, removeArchives } = this.#deps;
    const { id, orgId, sha256, sizeBytes, expiresAt } = transfer;
    if (upload.sizeBytes !== undefined && upload.sizeBytes !== sizeBytes) throw differs(transfer);
    using deadline = new Deadline(expiresAt - clock.now(), signal);
    const content = { orgId, sizeBytes, open: () => upload.open() };
    await using staged = await staging.take(content, sizeBytes, deadline.signal).catch((error: unknown) => {
      throw error instanceof ContentTooLargeError
        ? differs(transfer)
        : deadline.endedBy === 'timeout'
          ? ended()
          : error;
    });
    if (staged.sizeBytes !== sizeBytes || staged.sha256 !== sha256) throw differs(transfer);
    await store.put(staged.file, { sha256, sizeBytes, name: id }).catch(rejectUnavailable);
    if (await archives.findTransfer(id, clock.now())) return;
    // If the row was deleted meanwhile, the stored content has no owner and is removed again.
    if (!(await archives.isOwned(id))) await store.remove(id);
    await removeArchives.removeDiscarded();
    throw ended();
  }

  /** Attaches an uploaded archive to its run, as `StoreArchive.store` does. @throws AppError */
  async finalize(call: Call, run: WorkspaceRunRecord): Promise<WorkspaceRunRecord> {
    const { archives, storeArchive, removeArchives, clock } = this.#deps;
    requireArchivable(run);
    const replaced = (await archives.findCurrent(run.id))?.id;
    const transfer = await archives.findTransferOf(run.id, clock.now());
    if (!transfer) throw missing(run, 'There is no archive transfer');
    await using uploaded = await this.#open(run, transfer, call.signal);
    try {
      const measures = await storeArchive.judge(call, run, { ...transfer, file: uploaded.file }, 'archive');
      return await storeArchive.attach(call, run, transfer, { measures, replaced });
    } catch (error) {
      if (error instanceof AppError && error.is('invalid_request')) await removeArchives.removeFailed(transfer.id);
      throw error;
    }
  }

  /** Opens an upload whose size and digest are as stated. @throws AppError `conflict` for another one, or for none */
  async #open(
    run: WorkspaceRunRecord,
    transfer: ArchiveRecord,
    signal: AbortSignal,
  ): Promise<AsyncDisposable & { file: string }> {
    const { store } = this.#deps;
    const { id, sizeBytes, sha256 } = transfer;
    const file = store.fileOf(id);
    // A store in a folder has only contents that were verified before.
    if (file !== undefined && (await store.has(id))) return { file, [Symbol.asyncDispose]: async () => undefined };
    if (file !== undefined) throw missing(run, 'The archive was not uploaded');
    const staged = await this.#download(run, transfer, signal);
    if (staged.sizeBytes === sizeBytes && staged.sha256 === sha256) return staged;
    await staged[Symbol.asyncDispose]();
    throw missing(run, 'The uploaded archive has another size or SHA-256 than the transfer states');
  }

  async #download(run: WorkspaceRunRecord, { id, sizeBytes }: ArchiveRecord, signal: AbortSignal): Promise<Staged> {
    const { store, staging } = this.#deps;
    try {
      const content = { orgId: run.orgId, sizeBytes, open: () => store.read(id, undefined, signal) };
      return await staging.take(content, sizeBytes, signal);
    } catch (error) {
      if (error instanceof ContentMissingError) throw missing(run, 'The archive was not uploaded');
      if (error instanceof ContentTooLargeError) throw missing(run, 'The uploaded archive is larger than stated');
      return rejectUnavailable(error);
    }
  }
}

function missing({ status }: WorkspaceRunRecord, what: string): AppError {
  const message = `${what}; create an archive transfer, send the archive to its URL, then finalize it.`;
  return new AppError('conflict', message, { details: { status } });
}

function differs({ sizeBytes, sha256 }: ArchiveRecord): AppError {
  const message = `is not the archive of the transfer, which has ${sizeBytes} bytes and the SHA-256 ${sha256}`;
  return invalidRequest({ path: 'body', message });
}

function ended(): AppError {
  return new AppError('conflict', 'The archive transfer has ended; create another one.');
}
