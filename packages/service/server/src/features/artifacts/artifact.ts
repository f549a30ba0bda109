import { posix } from 'node:path';
import type { Artifact, ArtifactId, Metadata, OrgId, ProjectId, SandboxId, WorkspaceRunId } from '@cloche/contract';
import { DEFAULT_CWD, LIMITS } from '@cloche/contract';
import { isFileUri, pathOfFileUri } from '@cloche/protocol';
import { timestamp } from '../../platform/base/clock.ts';

/** Times are milliseconds since the epoch. */
export interface ArtifactRecord {
  readonly id: ArtifactId;
  readonly orgId: OrgId;
  readonly projectId: ProjectId;
  readonly sandboxId: SandboxId;
  readonly workspaceRunId?: WorkspaceRunId | undefined;
  readonly name: string;
  readonly path: string | undefined;
  readonly contentType: string;
  readonly sizeBytes: number;
  readonly sha256: string;
  readonly metadata: Metadata;
  readonly createdAt: number;
  readonly expiresAt: number | undefined;
  readonly deletedAt: number | undefined;
  readonly idempotencyRecordId: string | undefined;
}

export function toArtifact(record: ArtifactRecord): Artifact {
  return {
    id: record.id,
    orgId: record.orgId,
    projectId: record.projectId,
    sandboxId: record.sandboxId,
    ...(record.workspaceRunId === undefined ? {} : { workspaceRunId: record.workspaceRunId }),
    name: record.name,
    ...(record.path === undefined ? {} : { path: record.path }),
    contentType: record.contentType,
    sizeBytes: record.sizeBytes,
    sha256: record.sha256,
    metadata: record.metadata,
    createdAt: timestamp(record.createdAt),
    ...(record.expiresAt === undefined ? {} : { expiresAt: timestamp(record.expiresAt) }),
    ...(record.deletedAt === undefined ? {} : { deletedAt: timestamp(record.deletedAt) }),
  };
}

/**
 * Returns the last segment of a path as a file name: forbidden characters are replaced, and the name is shortened so
 * that it fits with `ending`. Bytes of a `file:` URI that are not valid UTF-8 are replaced.
 */
export function nameOf(path: string, ending = ''): string {
  const text = isFileUri(path) ? Buffer.from(pathOfFileUri(path), 'latin1').toString() : path;
  const name = posix.basename(posix.resolve(DEFAULT_CWD, text)) || 'root';
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a name may not contain these characters
  const plain = name.replace(/[\\\u0000-\u001f\u007f]/g, '_');
  return plain.slice(0, LIMITS.artifactNameLength - ending.length).toWellFormed() + ending;
}
