import { type Static, Type } from 'typebox';
import { ArtifactIdSchema, OrgIdSchema, ProjectIdSchema, SandboxIdSchema } from './ids.ts';
import { LIMITS } from './limits.ts';
import { Metadata } from './sandbox.ts';
import { Timestamp } from './timestamps.ts';

export const Artifact = Type.Object(
  {
    id: ArtifactIdSchema,
    orgId: OrgIdSchema,
    projectId: ProjectIdSchema,
    sandboxId: SandboxIdSchema,
    name: Type.String({ description: 'What a download is called.' }),
    path: Type.Optional(Type.String({ description: 'Where it was in the sandbox; of an output of a run, none.' })),
    contentType: Type.String(),
    sizeBytes: Type.Integer({ minimum: 0 }),
    sha256: Type.String({ description: 'Digest of the content, hexadecimal.' }),
    metadata: Type.Record(Type.String(), Type.String()),
    createdAt: Timestamp,
    expiresAt: Type.Optional(Timestamp),
    deletedAt: Type.Optional(Timestamp),
  },
  { $id: 'Artifact' },
);
export type Artifact = Static<typeof Artifact>;

export const ExportArtifactBody = Type.Object(
  {
    path: Type.String({
      minLength: 1,
      maxLength: LIMITS.cwdLength,
      description: 'A file, or a directory, which becomes a tar.gz; absolute, or relative to `/workspace`.',
    }),
    name: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: LIMITS.artifactNameLength,
        // No separators and no control characters: it names a file on the machine of whoever downloads it.
        pattern: '^[^/\\\\\\u0000-\\u001f\\u007f]+$',
        description: 'The last part of the path where left out.',
      }),
    ),
    contentType: Type.Optional(
      Type.String({
        maxLength: 255,
        pattern: '^[\\w.+-]+/[\\w.+-]+(; ?[\\w-]+=[\\w.+-]+)*$',
        description: 'By the name where left out.',
      }),
    ),
    metadata: Type.Optional(Metadata),
  },
  { $id: 'ExportArtifact', additionalProperties: false },
);
export type ExportArtifactBody = Static<typeof ExportArtifactBody>;

export const ArtifactDownloadUrlBody = Type.Object(
  {
    expiresInMs: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: LIMITS.downloadUrlMaxMs,
        default: LIMITS.downloadUrlDefaultMs,
      }),
    ),
  },
  { $id: 'ArtifactDownloadUrlRequest', additionalProperties: false },
);

export const ArtifactDownloadUrl = Type.Object(
  { url: Type.String({ format: 'uri', description: 'Needs no API key.' }), expiresAt: Timestamp },
  { $id: 'ArtifactDownloadUrl' },
);
export type ArtifactDownloadUrl = Static<typeof ArtifactDownloadUrl>;
