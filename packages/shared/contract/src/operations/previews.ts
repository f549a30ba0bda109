import { Type } from 'typebox';
import { PreviewIdSchema } from '../ids.ts';
import { listOf, PAGE } from '../list.ts';
import type { Operation } from '../operation.ts';
import { OpenPreviewBody, Preview } from '../preview.ts';
import { Text } from '../text.ts';
import { SandboxParams } from './sandboxes.ts';

const tag = 'Previews';
const PreviewParams = Type.Object({ previewId: PreviewIdSchema });
const PreviewResponse = Type.Object({ preview: Preview });

export const openPreview = {
  id: 'openPreview',
  method: 'POST',
  path: '/v1/sandboxes/{sandboxId}/previews',
  tag,
  summary: 'Create a preview',
  description:
    'Serves a port of the sandbox at a URL of its own: HTTP/1.1, server-sent events and WebSockets. It is enough if ' +
    'the program listens on 127.0.0.1. The preview closes when its lifetime or its sandbox ends, when it is deleted, or ' +
    'when the key that created it is revoked or expires.',
  scope: 'preview:create',
  idempotency: 'optional',
  secretAnswer: true,
  params: SandboxParams,
  body: OpenPreviewBody,
  response: {
    status: 201,
    schema: PreviewResponse,
    description: 'The preview. A private preview includes its access token.',
  },
  errors: ['sandbox_destroyed', 'sandbox_failed', 'quota_exceeded'],
} as const satisfies Operation;

export const listSandboxPreviews = {
  id: 'listSandboxPreviews',
  method: 'GET',
  path: '/v1/sandboxes/{sandboxId}/previews',
  tag,
  summary: 'List the previews of a sandbox',
  scope: 'preview:read',
  idempotency: 'none',
  params: SandboxParams,
  query: Type.Object(PAGE, { additionalProperties: false }),
  response: { status: 200, schema: listOf(Preview), description: 'All open previews, newest first.' },
  errors: [],
} as const satisfies Operation;

export const listPreviews = {
  id: 'listPreviews',
  method: 'GET',
  path: '/v1/previews',
  tag,
  summary: 'List previews',
  scope: 'preview:read',
  idempotency: 'none',
  query: Type.Object(
    {
      projectId: Type.Optional(Text({ description: 'Only previews of this project.' })),
      sandboxId: Type.Optional(Text({ description: 'Only previews of this sandbox.' })),
      ...PAGE,
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: listOf(Preview), description: 'All open previews, newest first.' },
  errors: [],
} as const satisfies Operation;

export const getPreview = {
  id: 'getPreview',
  method: 'GET',
  path: '/v1/previews/{previewId}',
  tag,
  summary: 'Get a preview',
  description: 'A closed preview is `not_found`.',
  scope: 'preview:read',
  idempotency: 'none',
  params: PreviewParams,
  response: { status: 200, schema: PreviewResponse, description: 'The preview.' },
  errors: [],
} as const satisfies Operation;

export const deletePreview = {
  id: 'deletePreview',
  method: 'DELETE',
  path: '/v1/previews/{previewId}',
  tag,
  summary: 'Delete a preview',
  description: 'Closes the preview and its connections at once. Deleting a deleted preview returns it again.',
  scope: 'preview:delete',
  idempotency: 'none',
  params: PreviewParams,
  response: { status: 200, schema: PreviewResponse, description: 'The deleted preview.' },
  errors: [],
} as const satisfies Operation;
