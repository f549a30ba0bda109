import { Type } from 'typebox';
import { ApiKey, ApiKeySecret, CreateApiKeyBody, Organization, RotateApiKeyBody } from '../api-key.ts';
import { ApiKeyIdSchema } from '../ids.ts';
import { listOf, oneOf, PAGE } from '../list.ts';
import type { Operation } from '../operation.ts';
import { Project } from '../project.ts';

const tag = 'API keys';
const ApiKeyParams = Type.Object({ apiKeyId: ApiKeyIdSchema });
const ApiKeyResponse = Type.Object({ apiKey: ApiKey });
const SecretResponse = Type.Object({ apiKey: ApiKey, secret: ApiKeySecret });

export const createApiKey = {
  id: 'createApiKey',
  method: 'POST',
  path: '/v1/api-keys',
  tag,
  summary: 'Create an API key',
  description:
    'The new key has no scope, project or lifetime that the calling key lacks; `details.missing` of `forbidden` lists ' +
    'what it lacks. The secret is shown once, and once more to the same key with the same `Idempotency-Key`.',
  scope: 'api_key:write',
  idempotency: 'optional',
  secretAnswer: true,
  body: CreateApiKeyBody,
  response: { status: 201, schema: SecretResponse, description: 'The key and its secret.' },
  errors: ['quota_exceeded'],
} as const satisfies Operation;

export const listApiKeys = {
  id: 'listApiKeys',
  method: 'GET',
  path: '/v1/api-keys',
  tag,
  summary: 'List API keys',
  description: 'A key that is bound to projects sees only keys that are bound to some of these projects.',
  scope: 'api_key:read',
  idempotency: 'none',
  query: Type.Object(
    {
      include: Type.Optional(oneOf(['revoked'], '`revoked`: also keys that were revoked or have expired.')),
      ...PAGE,
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: listOf(ApiKey), description: 'All keys that work, newest first.' },
  errors: [],
} as const satisfies Operation;

export const getCurrentApiKey = {
  id: 'getCurrentApiKey',
  method: 'GET',
  path: '/v1/api-keys/current',
  tag,
  summary: 'Get the calling key',
  description: 'Returns the key that sends the request, its organization, and the project that it uses by default.',
  scope: null,
  idempotency: 'none',
  response: {
    status: 200,
    schema: Type.Object({
      apiKey: ApiKey,
      organization: Organization,
      project: Project,
    }),
    description: 'The calling key, its organization, and a project that it may use: the default one, if it may.',
  },
  errors: [],
} as const satisfies Operation;

export const getApiKey = {
  id: 'getApiKey',
  method: 'GET',
  path: '/v1/api-keys/{apiKeyId}',
  tag,
  summary: 'Get an API key',
  description: 'Returns a key without its secret, also after it was revoked or has expired.',
  scope: 'api_key:read',
  idempotency: 'none',
  params: ApiKeyParams,
  response: { status: 200, schema: ApiKeyResponse, description: 'The key.' },
  errors: [],
} as const satisfies Operation;

export const rotateApiKey = {
  id: 'rotateApiKey',
  method: 'POST',
  path: '/v1/api-keys/{apiKeyId}/rotate',
  tag,
  summary: 'Rotate an API key',
  description:
    'Creates a successor with the same name, scopes, projects and expiry. The old key expires after `graceMs`, or ' +
    'earlier if it would have expired earlier. A key that has more than the calling key is `forbidden`; a key that was ' +
    'revoked or has expired is `conflict`.',
  scope: 'api_key:write',
  idempotency: 'optional',
  secretAnswer: true,
  params: ApiKeyParams,
  body: RotateApiKeyBody,
  bodyOptional: true,
  response: { status: 201, schema: SecretResponse, description: 'The successor and its secret.' },
  errors: ['conflict'],
} as const satisfies Operation;

export const revokeApiKey = {
  id: 'revokeApiKey',
  method: 'DELETE',
  path: '/v1/api-keys/{apiKeyId}',
  tag,
  summary: 'Revoke an API key',
  description:
    'The key stops working at once. Within a second, its runs, streams, terminals, watches and the previews that it ' +
    'created end. A key may revoke itself without the scope. A key that has more than the calling key is `forbidden`. ' +
    'Revoking a revoked key returns it again.',
  scope: 'api_key:write',
  scopeExempt: 'apiKeyId',
  idempotency: 'none',
  params: ApiKeyParams,
  response: { status: 200, schema: ApiKeyResponse, description: 'The revoked key.' },
  errors: [],
} as const satisfies Operation;
