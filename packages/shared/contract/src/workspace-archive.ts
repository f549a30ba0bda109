import { type Static, Type } from 'typebox';
import { LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { timestamp } from './timestamps.ts';
import { WORKSPACE_ARCHIVE_FORMATS, type WorkspaceArchiveFormat } from './workspace-run.ts';

/** `Content-Type` of an uploaded archive, by its format. */
export const WORKSPACE_ARCHIVE_TYPES = {
  tar: 'application/x-tar',
  'tar.gz': 'application/gzip',
  'tar.zst': 'application/zstd',
  zip: 'application/zip',
} as const satisfies Record<WorkspaceArchiveFormat, string>;

export const ArchiveTransferBody = Type.Object(
  {
    sizeBytes: Type.Integer({
      minimum: 1,
      maximum: LIMITS.workspaceArchiveTransferBytes,
      description: 'Size of the archive.',
    }),
    sha256: Type.String({
      pattern: '^[0-9a-f]{64}$',
      description: 'SHA-256 of the archive, in lower-case hexadecimal.',
    }),
    format: oneOf(WORKSPACE_ARCHIVE_FORMATS, 'Format of the archive.'),
  },
  {
    $id: 'ArchiveTransferRequest',
    additionalProperties: false,
    examples: [{ sizeBytes: 734_003_200, sha256: 'a'.repeat(64), format: 'tar.zst' }],
  },
);
export type ArchiveTransferBody = Static<typeof ArchiveTransferBody>;

export const ArchiveTransfer = Type.Object(
  {
    method: Type.Literal('PUT'),
    url: Type.String({ format: 'uri', description: 'Where to send the archive. It needs no API key.' }),
    headers: Type.Record(Type.String(), Type.String(), { description: 'Headers to send with the archive.' }),
    expiresAt: timestamp('When the URL stops working.'),
  },
  { $id: 'ArchiveTransfer' },
);
export type ArchiveTransfer = Static<typeof ArchiveTransfer>;
