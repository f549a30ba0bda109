import { Type } from 'typebox';
import { Artifact, ArtifactDownloadUrl, ArtifactDownloadUrlBody, ExportArtifactBody } from '../artifact.ts';
import { ArtifactIdSchema } from '../ids.ts';
import { listOf } from '../list.ts';
import type { Operation } from '../operation.ts';
import { LABEL_PATTERN } from '../sandbox.ts';
import { SandboxParams } from './sandboxes.ts';

const tag = 'Artifacts';
const ArtifactParams = Type.Object({ artifactId: ArtifactIdSchema });
const ArtifactResponse = Type.Object({ artifact: Artifact });

export const exportArtifact = {
  id: 'exportArtifact',
  method: 'POST',
  path: '/v1/sandboxes/{sandboxId}/artifacts',
  tag,
  summary: 'Keep a file or directory of a sandbox',
  description: 'It outlives the sandbox. Equal contents are kept once.',
  scope: 'artifact:create',
  idempotency: 'required',
  params: SandboxParams,
  body: ExportArtifactBody,
  response: { status: 201, schema: ArtifactResponse, description: 'The artifact, whole.' },
  errors: ['conflict', 'sandbox_destroyed', 'sandbox_failed'],
} as const satisfies Operation;

export const listArtifacts = {
  id: 'listArtifacts',
  method: 'GET',
  path: '/v1/artifacts',
  tag,
  summary: 'List artifacts',
  description: 'Newest first. `metadata.<key>=value` filters by an exact label.',
  scope: 'artifact:read',
  idempotency: 'none',
  query: Type.Object(
    {
      projectId: Type.Optional(Type.String()),
      sandboxId: Type.Optional(Type.String()),
      name: Type.Optional(Type.String()),
    },
    { patternProperties: { [LABEL_PATTERN]: Type.String() }, additionalProperties: false },
  ),
  response: { status: 200, schema: listOf(Artifact), description: 'The whole visible collection.' },
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
  description: 'Its bytes, as an attachment. A content that is not what its digest says any more breaks off.',
  scope: 'artifact:read',
  idempotency: 'none',
  params: ArtifactParams,
  headers: {
    range: 'One range of bytes, as in `bytes=0-99`, `bytes=100-` or `bytes=-100`; of several the whole comes.',
    'if-range': 'An ETag; with another one the range is ignored.',
    'if-none-match': 'ETags; 304 when it has one of them, which it always has.',
  },
  response: { status: 200, schema: Type.String(), description: 'The whole content.' },
  download: {
    contentTypes: ['application/octet-stream'],
    description: 'The bytes.',
    also: { 206: 'The range that was asked for.', 304: 'It has that ETag.' },
  },
  errors: ['range_not_satisfiable'],
} as const satisfies Operation;

export const createArtifactDownloadUrl = {
  id: 'createArtifactDownloadUrl',
  method: 'POST',
  path: '/v1/artifacts/{artifactId}/download-url',
  tag,
  summary: 'Make a URL that downloads an artifact without a key',
  scope: 'artifact:read',
  idempotency: 'optional',
  params: ArtifactParams,
  body: ArtifactDownloadUrlBody,
  bodyOptional: true,
  response: {
    status: 201,
    schema: Type.Object({ download: ArtifactDownloadUrl }),
    description: 'The URL, for this artifact alone and until it expires.',
  },
  errors: [],
} as const satisfies Operation;

export const deleteArtifact = {
  id: 'deleteArtifact',
  method: 'DELETE',
  path: '/v1/artifacts/{artifactId}',
  tag,
  summary: 'Delete an artifact',
  description: 'Idempotent: a deleted one is returned as it is. Space is freed with the last artifact of a content.',
  scope: 'artifact:delete',
  idempotency: 'none',
  params: ArtifactParams,
  response: { status: 200, schema: ArtifactResponse, description: 'The deleted artifact.' },
  errors: [],
} as const satisfies Operation;
