import type { ApiKeyId, OrgId, Preview, PreviewId, PreviewVisibility, ProjectId, SandboxId } from '@cloche/contract';
import { timestamp } from '../../platform/base/clock.ts';

/** Times are milliseconds since the epoch. */
export interface PreviewRecord {
  readonly id: PreviewId;
  readonly orgId: OrgId;
  readonly projectId: ProjectId;
  readonly sandboxId: SandboxId;
  readonly port: number;
  readonly visibility: PreviewVisibility;
  /** Set for a private preview. */
  readonly tokenHash: string | undefined;
  /** The key that created it, with which it ends. */
  readonly apiKeyId: ApiKeyId | undefined;
  readonly createdAt: number;
  /** The earliest expiry of the preview itself, its sandbox and the key that created it. */
  readonly expiresAt: number;
  readonly deletedAt: number | undefined;
}

/** @param accessToken only in the response to the preview's creation */
export function toPreview(record: PreviewRecord, url: string, accessToken?: string): Preview {
  return {
    id: record.id,
    orgId: record.orgId,
    projectId: record.projectId,
    sandboxId: record.sandboxId,
    port: record.port,
    url,
    visibility: record.visibility,
    createdAt: timestamp(record.createdAt),
    expiresAt: timestamp(record.expiresAt),
    ...(record.deletedAt === undefined ? {} : { deletedAt: timestamp(record.deletedAt) }),
    ...(accessToken === undefined ? {} : { accessToken }),
  };
}
