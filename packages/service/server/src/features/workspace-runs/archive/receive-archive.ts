import { LIMITS, WORKSPACE_ARCHIVE_TYPES, type WorkspaceArchiveFormat, type WorkspaceRunId } from '@cloche/contract';
import { AppError } from '../../../platform/base/app-error.ts';
import type { Call } from '../../../platform/call/call.ts';
import type { ReceivedBody, Upload } from '../../../platform/http/route.ts';
import { ContentTooLargeError, type Staged, type Staging } from '../../artifacts/store/staging.ts';
import type { WorkspaceRunRecord } from '../record/workspace-run.ts';
import type { WorkspaceRunAccess } from '../record/workspace-run-access.ts';
import { requireArchivable } from './archivable-run.ts';
import type { ArchiveRepository } from './archive-repository.ts';
import type { ArchiveFile } from './store-archive.ts';

const FORMATS = new Map<string, WorkspaceArchiveFormat>([
  ...Object.entries(WORKSPACE_ARCHIVE_TYPES).map(([format, type]) => [type, format as WorkspaceArchiveFormat] as const),
  ['application/x-gzip', 'tar.gz'],
  ['application/x-zstd', 'tar.zst'],
  ['application/x-zip-compressed', 'zip'],
]);

/** An archive that arrived in one request, in a temporary file. */
export interface ReceivedArchive extends ReceivedBody {
  readonly run: WorkspaceRunRecord;
  /** Id of the archive that the run had when the request came. */
  readonly replaced: string | undefined;
  readonly archive: ArchiveFile;
}

/** Receives archives into temporary files. */
export class ReceiveArchive {
  readonly #runAccess: WorkspaceRunAccess;
  readonly #archives: ArchiveRepository;
  readonly #staging: Staging;

  constructor(runAccess: WorkspaceRunAccess, archives: ArchiveRepository, staging: Staging) {
    this.#runAccess = runAccess;
    this.#archives = archives;
    this.#staging = staging;
  }

  /** Receives the body of an upload. Keeps nothing of it if it rejects. @throws AppError */
  async receive({ credential, signal }: Call, id: WorkspaceRunId, upload: Upload): Promise<ReceivedArchive> {
    const run = await this.#runAccess.get(credential, id);
    requireArchivable(run);
    const replaced = (await this.#archives.findCurrent(run.id))?.id;
    const format = formatOf(upload.contentType);
    const staged = await this.#take(run, upload, signal);
    const { file, sizeBytes, sha256 } = staged;
    return {
      run,
      replaced,
      archive: { file, format, sizeBytes, sha256 },
      fingerprint: { format, sha256 },
      [Symbol.asyncDispose]: () => staged[Symbol.asyncDispose](),
    };
  }

  async #take({ orgId }: WorkspaceRunRecord, upload: Upload, signal: AbortSignal): Promise<Staged> {
    const maxBytes = LIMITS.workspaceArchiveBytes;
    const { sizeBytes } = upload;
    try {
      return await this.#staging.take({ orgId, sizeBytes, open: () => upload.open() }, maxBytes, signal);
    } catch (error) {
      throw error instanceof ContentTooLargeError ? tooLarge(maxBytes) : error;
    }
  }
}

function formatOf(contentType: string | undefined): WorkspaceArchiveFormat {
  const format = FORMATS.get(contentType?.split(';')[0]?.trim().toLowerCase() ?? '');
  if (format) return format;
  const types = Object.values(WORKSPACE_ARCHIVE_TYPES).join(', ');
  throw new AppError('unsupported_media_type', `Send the archive with its Content-Type, which is one of ${types}.`);
}

function tooLarge(maxBytes: number): AppError {
  const message = `The body has more than ${maxBytes} bytes; upload a larger archive to the URL of an archive transfer.`;
  return new AppError('payload_too_large', message);
}
