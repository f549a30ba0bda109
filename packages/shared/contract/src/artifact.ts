import { type Static, Type } from 'typebox';
import { FILE_PATH_PATTERN, FileUser } from './file.ts';
import { ArtifactIdSchema, OrgIdSchema, ProjectIdSchema, SandboxIdSchema, WorkspaceRunIdSchema } from './ids.ts';
import { LIMITS } from './limits.ts';
import { Metadata } from './sandbox.ts';
import { documented, Text } from './text.ts';
import { Timestamp, timestamp } from './timestamps.ts';

export const Artifact = Type.Object(
  {
    id: ArtifactIdSchema,
    orgId: OrgIdSchema,
    projectId: ProjectIdSchema,
    sandboxId: SandboxIdSchema,
    workspaceRunId: Type.Optional(WorkspaceRunIdSchema),
    name: Type.String({ description: 'File name of a download.' }),
    path: Type.Optional(
      Type.String({ description: 'Path of the file in the sandbox. Absent for an output of a run.' }),
    ),
    contentType: Type.String({ description: 'Media type of the content.' }),
    sizeBytes: Type.Integer({ minimum: 0, description: 'Size of the content.' }),
    sha256: Type.String({ description: 'SHA-256 of the content, in hexadecimal.' }),
    metadata: Type.Record(Type.String(), Type.String(), { description: 'The labels that were set at creation.' }),
    createdAt: Timestamp,
    expiresAt: Type.Optional(timestamp('When the service deletes the artifact.')),
    deletedAt: Type.Optional(timestamp('When the artifact was deleted.')),
  },
  { $id: 'Artifact' },
);
export type Artifact = Static<typeof Artifact>;

export const ExportArtifactBody = Type.Object(
  {
    path: Text({
      minLength: 1,
      maxLength: LIMITS.cwdLength,
      ...documented({ pattern: FILE_PATH_PATTERN }),
      description: 'Path of a file or a directory, absolute or relative to `/workspace`. A directory becomes a tar.gz.',
    }),
    name: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: LIMITS.artifactNameLength,
        // No separators and no control characters: a client saves the download under this name.
        pattern: '^[^/\\\\\\u0000-\\u001f\\u007f]+$',
        description:
          'File name of a download: no slash, backslash or control character. Default: the last part of `path`.',
      }),
    ),
    contentType: Type.Optional(
      Type.String({
        maxLength: 255,
        pattern: '^[\\w.+-]+/[\\w.+-]+(; ?[\\w-]+=[\\w.+-]+)*$',
        description: 'Media type, such as `text/csv; charset=utf-8`. Default: derived from the extension of the name.',
      }),
    ),
    metadata: Type.Optional(Metadata),
    user: FileUser,
  },
  { $id: 'ExportArtifact', additionalProperties: false, examples: [{ path: 'report.pdf' }] },
);
export type ExportArtifactBody = Static<typeof ExportArtifactBody>;

export const ArtifactDownloadUrlBody = Type.Object(
  {
    expiresInMs: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: LIMITS.downloadUrlMaxMs,
        default: LIMITS.downloadUrlDefaultMs,
        description: 'How long the URL works, in milliseconds.',
      }),
    ),
  },
  { $id: 'ArtifactDownloadUrlRequest', additionalProperties: false, examples: [{ expiresInMs: 600_000 }] },
);

export const ArtifactDownloadUrl = Type.Object(
  {
    url: Type.String({ format: 'uri', description: 'URL of the content. It needs no API key.' }),
    expiresAt: timestamp('When the URL stops working.'),
  },
  { $id: 'ArtifactDownloadUrl' },
);
export type ArtifactDownloadUrl = Static<typeof ArtifactDownloadUrl>;
