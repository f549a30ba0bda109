import { Type } from 'typebox';
import { Artifact, ArtifactDownloadUrl, ArtifactDownloadUrlBody, ExportArtifactBody } from '../artifact.ts';
import { ArtifactIdSchema } from '../ids.ts';
import { listOf, PAGE } from '../list.ts';
import type { Operation } from '../operation.ts';
import { LABEL_PATTERN } from '../sandbox.ts';
import { Text } from '../text.ts';
import { SandboxParams } from './sandboxes.ts';

const tag = 'Artifacts';
const ArtifactParams = Type.Object({ artifactId: ArtifactIdSchema });
const ArtifactResponse = Type.Object({ artifact: Artifact });

export const exportArtifact = {
  id: 'exportArtifact',
  method: 'POST',
  path: '/v1/sandboxes/{sandboxId}/artifacts',
  tag,
  summary: 'Create an artifact from a file or directory',
  description: 'The artifact is a copy that outlives the sandbox. Equal contents are stored once.',
  scope: 'artifact:create',
  idempotency: 'required',
  params: SandboxParams,
  body: ExportArtifactBody,
  response: { status: 201, schema: ArtifactResponse, description: 'The artifact.' },
  errors: ['permission_denied', 'conflict', 'sandbox_destroyed', 'sandbox_failed', 'sandbox_incompatible'],
} as const satisfies Operation;

export const listArtifacts = {
  id: 'listArtifacts',
  method: 'GET',
  path: '/v1/artifacts',
  tag,
  summary: 'List artifacts',
  description: 'Newest first. `metadata.<key>=<value>` lists only artifacts with that label.',
  scope: 'artifact:read',
  idempotency: 'none',
  query: Type.Object(
    {
      projectId: Type.Optional(Text({ description: 'Only artifacts of this project.' })),
      sandboxId: Type.Optional(Text({ description: 'Only artifacts of this sandbox.' })),
      workspaceRunId: Type.Optional(Text({ description: 'Only artifacts of this workspace run.' })),
      name: Type.Optional(Text({ description: 'Only artifacts with this name.' })),
      ...PAGE,
    },
    { patternProperties: { [LABEL_PATTERN]: Text() }, additionalProperties: false },
  ),
  response: { status: 200, schema: listOf(Artifact), description: 'All artifacts that the key can see.' },
  errors: [],
} as const satisfies Operation;

export const getArtifact = {
  id: 'getArtifact',
  method: 'GET',
  path: '/v1/artifacts/{artifactId}',
  tag,
  summary: 'Get an artifact',
  scope: 'artifact:read',
  idempotency: 'none',
  params: ArtifactParams,
  response: { status: 200, schema: ArtifactResponse, description: 'The artifact.' },
  errors: [],
} as const satisfies Operation;

export const downloadArtifact = {
  id: 'downloadArtifact',
  method: 'GET',
  path: '/v1/artifacts/{artifactId}/content',
  tag,
  summary: 'Download an artifact',
  description:
    'Returns the content as an attachment. The connection breaks off before the end if the stored content no longer ' +
    'matches its SHA-256.',
  scope: 'artifact:read',
  idempotency: 'none',
  params: ArtifactParams,
  headers: {
    range:
      'One range of bytes: `bytes=0-99`, `bytes=100-` or `bytes=-100`. With several ranges the response is the whole content.',
    'if-range': 'An ETag. If the content has a different ETag, `Range` is ignored.',
    'if-none-match': 'ETags. If the content has one of them, the response is 304.',
  },
  response: { status: 200, schema: Type.String(), description: 'The whole content.' },
  download: {
    contentTypes: ['*/*'],
    description: 'The bytes. `Content-Type` is the `contentType` of the artifact.',
    also: { 206: 'The requested range.', 304: 'The content has one of the ETags in `If-None-Match`.' },
  },
  errors: ['range_not_satisfiable'],
} as const satisfies Operation;

export const createArtifactDownloadUrl = {
  id: 'createArtifactDownloadUrl',
  method: 'POST',
  path: '/v1/artifacts/{artifactId}/download-url',
  tag,
  summary: 'Create a download URL for an artifact',
  description: 'The URL works without an API key, only for this artifact, and until `expiresAt`.',
  scope: 'artifact:read',
  idempotency: 'optional',
  secretAnswer: true,
  params: ArtifactParams,
  body: ArtifactDownloadUrlBody,
  bodyOptional: true,
  response: {
    status: 201,
    schema: Type.Object({ download: ArtifactDownloadUrl }),
    description: 'The URL.',
  },
  errors: [],
} as const satisfies Operation;

export const deleteArtifact = {
  id: 'deleteArtifact',
  method: 'DELETE',
  path: '/v1/artifacts/{artifactId}',
  tag,
  summary: 'Delete an artifact',
  description:
    'Deleting a deleted artifact returns it again. The storage is freed when no other artifact has the same content.',
  scope: 'artifact:delete',
  idempotency: 'none',
  params: ArtifactParams,
  response: { status: 200, schema: ArtifactResponse, description: 'The deleted artifact.' },
  errors: [],
} as const satisfies Operation;
