import type { WorkspaceArchiveFormat, WorkspaceRun as WorkspaceRunInfo } from '@cloche/contract';
import { LIMITS, WORKSPACE_ARCHIVE_TYPES } from '@cloche/contract/client';
import type { ApiClient } from './api-client.ts';
import { ClocheError, isClocheError } from './cloche-error.ts';
import type { CallOptions, UploadBytes } from './request.ts';

/** An archive to upload. */
export interface WorkspaceArchiveUpload {
  format: WorkspaceArchiveFormat;
  /** A stream can be sent once. A function returns a new stream for each attempt, so that the upload can be retried. */
  bytes: UploadBytes;
  /** Required of a stream that is larger than 100 MiB. */
  sizeBytes?: number | undefined;
  /** SHA-256 in hexadecimal. Required of an archive that is larger than 100 MiB. */
  sha256?: string | undefined;
}

/** Attempts of a transfer, each with a URL of its own. */
const TRANSFERS = 3;

/** Uploads an archive to a run: in one request, or by a signed URL if it is large. */
export async function uploadArchive(
  client: ApiClient,
  workspaceRunId: WorkspaceRunInfo['id'],
  archive: WorkspaceArchiveUpload,
  options: CallOptions,
): Promise<WorkspaceRunInfo> {
  const params = { workspaceRunId };
  const sizeBytes = archive.sizeBytes ?? sizeOf(archive.bytes);
  if (sizeBytes !== undefined && sizeBytes > LIMITS.workspaceArchiveBytes) {
    return transfer(client, workspaceRunId, { ...archive, sizeBytes }, options);
  }
  const headers = archive.sha256 === undefined ? {} : { 'content-digest': contentDigest(archive.sha256) };
  const contentType = WORKSPACE_ARCHIVE_TYPES[archive.format];
  const request = { ...options, params, headers, contentType, bytes: archive.bytes };
  try {
    return (await client.call('uploadWorkspaceArchive', request)).workspaceRun;
  } catch (error) {
    // A file changed after an attempt whose response was lost. Uploading is repeatable with another key, too.
    if (typeof archive.bytes !== 'function' || !isClocheError(error, 'idempotency_key_reused')) throw error;
    return (await client.call('uploadWorkspaceArchive', request)).workspaceRun;
  }
}

/** Sends the bytes to a signed URL, then has the service verify them. An interrupted transfer starts anew. */
export async function transfer(
  client: ApiClient,
  workspaceRunId: WorkspaceRunInfo['id'],
  { format, bytes, sizeBytes, sha256 }: WorkspaceArchiveUpload & { sizeBytes: number },
  options: CallOptions,
): Promise<WorkspaceRunInfo> {
  if (sha256 === undefined) {
    const message = 'An archive of more than 100 MiB needs its `sha256`, in hexadecimal.';
    throw new ClocheError('invalid_options', message);
  }
  const params = { workspaceRunId };
  for (let attempt = 1; ; attempt += 1) {
    try {
      const body = { sizeBytes, sha256, format };
      const { transfer: target } = await client.call('createArchiveTransfer', { ...options, params, body });
      await client.put(target.url, { headers: target.headers, bytes, sizeBytes, signal: options.signal });
      return (await client.call('finalizeArchive', { ...options, params })).workspaceRun;
    } catch (error) {
      // A stream is used up. A lost upload is a conflict with the status in which archives are awaited.
      const isLost = isClocheError(error, 'unreachable', 'unexpected_response', 'conflict');
      if (!isLost || !isRepeatable(bytes) || attempt === TRANSFERS || hasStarted(error)) throw error;
    }
  }
}

/** Returns whether a conflict means that the run was already started, so that it accepts no archive any more. */
export function hasStarted(error: unknown): boolean {
  if (!isClocheError(error, 'conflict')) return false;
  const { status } = error.details ?? {};
  return status !== undefined && status !== 'awaiting_archive' && status !== 'archived';
}

function isRepeatable(bytes: UploadBytes): boolean {
  return typeof bytes === 'function' || sizeOf(bytes) !== undefined;
}

/** Returns the size of bytes that are complete. */
function sizeOf(bytes: UploadBytes): number | undefined {
  if (typeof bytes === 'string') return new TextEncoder().encode(bytes).length;
  if (bytes instanceof Blob) return bytes.size;
  return bytes instanceof ArrayBuffer || bytes instanceof Uint8Array ? bytes.byteLength : undefined;
}

/** Returns the value of a `Content-Digest` field. */
function contentDigest(sha256: string): string {
  const bytes = (sha256.match(/../g) ?? []).map((pair) => Number.parseInt(pair, 16));
  return `sha-256=:${btoa(String.fromCharCode(...bytes))}:`;
}
