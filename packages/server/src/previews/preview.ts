import type { OrgId, Preview, PreviewId, PreviewVisibility, ProjectId, SandboxId } from '@cloche/contract';
import { timestamp } from '../base/clock.ts';

/** Times are milliseconds since the epoch. */
export interface PreviewRecord {
  readonly id: PreviewId;
  readonly orgId: OrgId;
  readonly projectId: ProjectId;
  readonly sandboxId: SandboxId;
  readonly port: number;
  readonly visibility: PreviewVisibility;
  /** Of a private one. */
  readonly tokenHash: string | undefined;
  readonly createdAt: number;
  /** Its own, or that of its sandbox, whichever is first. */
  readonly expiresAt: number;
  readonly deletedAt: number | undefined;
}

/** @param accessToken in the answer to its creation alone */
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
