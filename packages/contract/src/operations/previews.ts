import { Type } from 'typebox';
import { PreviewIdSchema } from '../ids.ts';
import { listOf } from '../list.ts';
import type { Operation } from '../operation.ts';
import { OpenPreviewBody, Preview } from '../preview.ts';
import { SandboxParams } from './sandboxes.ts';

const tag = 'Previews';
const PreviewParams = Type.Object({ previewId: PreviewIdSchema });
const PreviewResponse = Type.Object({ preview: Preview });

export const openPreview = {
  id: 'openPreview',
  method: 'POST',
  path: '/v1/sandboxes/{sandboxId}/previews',
  tag,
  summary: 'Serve a port of a sandbox at a URL of its own',
  description:
    'HTTP/1.1, server-sent events and WebSockets reach the port, also one that listens on the loopback alone. It ends ' +
    'with its time, with its sandbox, or when it is deleted.',
  scope: 'preview:create',
  idempotency: 'optional',
  params: SandboxParams,
  body: OpenPreviewBody,
  response: { status: 201, schema: PreviewResponse, description: 'The preview, with its access token if private.' },
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
  response: { status: 200, schema: listOf(Preview), description: 'Those that are open, newest first.' },
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
    { projectId: Type.Optional(Type.String()), sandboxId: Type.Optional(Type.String()) },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: listOf(Preview), description: 'Those that are open, newest first.' },
  errors: [],
} as const satisfies Operation;

export const getPreview = {
  id: 'getPreview',
  method: 'GET',
  path: '/v1/previews/{previewId}',
  tag,
  summary: 'Get a preview',
  description: 'One that has ended is `not_found`.',
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
  summary: 'Close a preview',
  description: 'At once, with every connection through it. Idempotent: a deleted one is returned as it is.',
  scope: 'preview:delete',
  idempotency: 'none',
  params: PreviewParams,
  response: { status: 200, schema: PreviewResponse, description: 'The deleted preview.' },
  errors: [],
} as const satisfies Operation;
