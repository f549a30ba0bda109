import { LIMITS, type OpenPreviewBody, type PreviewId, type SandboxId } from '@cloche/contract';
import { type ProjectAccess, requireProject } from '../../platform/access/project-access.ts';
import { AppError, notFound } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import type { IdSource } from '../../platform/base/id-source.ts';
import type { Call } from '../../platform/call/call.ts';
import type { ListPart } from '../../platform/db/list-part.ts';
import { requireClaim } from '../../platform/idempotency/require-claim.ts';
import type { Credential } from '../../platform/keys/credential.ts';
import type { Quotas } from '../quotas/quotas.ts';
import type { SandboxAccess } from '../sandbox-records/sandbox-access.ts';
import type { PreviewRecord } from './preview.ts';
import type { NewPreview, PreviewRepository } from './preview-repository.ts';
import { hashPreviewToken, newPreviewToken } from './preview-token.ts';

export interface PreviewServiceDeps {
  readonly access: SandboxAccess;
  readonly projects: ProjectAccess;
  readonly quotas: Quotas;
  readonly previews: PreviewRepository;
  readonly clock: Clock;
  readonly ids: IdSource;
  /** Closes every connection through a preview. */
  readonly disconnect: (id: PreviewId) => void;
}

export type ReadPreviews = (part: ListPart) => Promise<PreviewRecord[]>;

/** Opens, lists and deletes previews. */
export class PreviewService {
  readonly #deps: PreviewServiceDeps;

  constructor(deps: PreviewServiceDeps) {
    this.#deps = deps;
  }

  /** Opens a preview. `token` gives access to a private preview; the service stores only its hash. @throws AppError */
  async open(
    call: Call,
    sandboxId: SandboxId,
    body: OpenPreviewBody,
  ): Promise<{ preview: PreviewRecord; token: string | undefined }> {
    const { access, quotas, previews, clock, ids } = this.#deps;
    const { credential, idempotency } = call;
    const sandbox = await access.getLive(credential, sandboxId);
    const visibility = body.visibility ?? 'private';
    const token = visibility === 'private' ? newPreviewToken() : undefined;
    const createdAt = clock.now();
    const preview: NewPreview = {
      id: ids.next('prv_'),
      orgId: sandbox.orgId,
      projectId: sandbox.projectId,
      sandboxId: sandbox.id,
      port: body.port,
      visibility,
      tokenHash: token === undefined ? undefined : hashPreviewToken(token),
      apiKeyId: credential.apiKeyId,
      createdAt,
      expiresAt: body.ttlMs === undefined ? undefined : createdAt + body.ttlMs,
      idempotencyRecordId: idempotency?.recordId,
    };
    const inserted = await quotas.admit(preview, async (tx, requireRoom) => {
      await requireClaim(tx, idempotency);
      const room = () => requireRoom({ previews: 1 });
      return previews.insert(call, preview, { maxOpen: LIMITS.previewsPerSandbox, requireRoom: room }, tx);
    });
    if (inserted.status === 'full') throw tooMany(sandbox.id, inserted.used);
    return { preview: await this.#find(preview.id), token };
  }

  /** Returns what reads the open previews of a sandbox. */
  async listOf({ credential }: Call, sandboxId: SandboxId): Promise<ReadPreviews> {
    const { access, previews, clock } = this.#deps;
    const sandbox = await access.get(credential, sandboxId);
    const filter = { orgId: sandbox.orgId, projectIds: undefined, sandboxId: sandbox.id };
    return (part) => previews.list(filter, clock.now(), part);
  }

  /** Returns what reads the open previews that the key may see. */
  async list(
    { credential }: Call,
    { projectId, sandboxId }: { projectId?: string; sandboxId?: string },
  ): Promise<ReadPreviews> {
    const { projects, previews, clock } = this.#deps;
    const projectIds = await projects.listed(credential, projectId);
    // The other conditions exclude a sandbox that the key may not see, so its list is empty.
    const filter = { orgId: credential.orgId, projectIds, sandboxId: sandboxId as SandboxId | undefined };
    return (part) => previews.list(filter, clock.now(), part);
  }

  async get({ credential }: Call, id: PreviewId): Promise<PreviewRecord> {
    const preview = await this.#deps.previews.findOpen(id, this.#deps.clock.now());
    return visible(credential, id, preview);
  }

  /** Deletes a preview. Idempotent, also for a preview that has already ended. */
  async delete(call: Call, id: PreviewId): Promise<PreviewRecord> {
    const { previews, clock, disconnect } = this.#deps;
    const preview = visible(call.credential, id, await previews.find(id));
    if (preview.deletedAt !== undefined) return preview;
    await previews.markDeleted(call, id, clock.now());
    disconnect(id);
    return this.#find(id);
  }

  async #find(id: PreviewId): Promise<PreviewRecord> {
    const preview = await this.#deps.previews.find(id);
    if (!preview) throw new Error(`the record of preview ${id} is gone`);
    return preview;
  }
}

function visible(credential: Credential, id: string, preview: PreviewRecord | undefined): PreviewRecord {
  if (!preview || preview.orgId !== credential.orgId) throw notFound('preview', id);
  requireProject(credential, preview.projectId, `project of the preview "${id}"`);
  return preview;
}

function tooMany(sandboxId: SandboxId, used: number): AppError {
  const limit = LIMITS.previewsPerSandbox;
  const message = `The sandbox "${sandboxId}" has ${used} open previews, and its limit is ${limit}; delete one first.`;
  return new AppError('quota_exceeded', message, { details: { quota: 'previews', limit, used } });
}
