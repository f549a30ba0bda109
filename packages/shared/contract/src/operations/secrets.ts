import { Type } from 'typebox';
import { SecretIdSchema } from '../ids.ts';
import { LIMITS } from '../limits.ts';
import { listOf, PAGE } from '../list.ts';
import type { Operation } from '../operation.ts';
import { CreateSecretBody, Secret, UpdateSecretBody } from '../secret.ts';
import { Text } from '../text.ts';

const tag = 'Secrets';
const SecretParams = Type.Object({ secretId: SecretIdSchema });
const SecretResponse = Type.Object({ secret: Secret });

export const createSecret = {
  id: 'createSecret',
  method: 'POST',
  path: '/v1/secrets',
  tag,
  summary: 'Create a secret',
  description:
    'Sandboxes of the project can be created with it (`secrets` of `createSandbox`). The value is stored encrypted, and no ' +
    `response has it. An organization has at most ${LIMITS.secretsPerOrganization} secrets that are not deleted.`,
  scope: 'secret:write',
  idempotency: 'optional',
  secretBody: true,
  body: CreateSecretBody,
  response: { status: 201, schema: SecretResponse, description: 'The new secret, without its value.' },
  errors: ['quota_exceeded'],
} as const satisfies Operation;

export const listSecrets = {
  id: 'listSecrets',
  method: 'GET',
  path: '/v1/secrets',
  tag,
  summary: 'List secrets',
  description: 'Newest first, without deleted ones and without values.',
  scope: 'secret:read',
  idempotency: 'none',
  query: Type.Object(
    {
      projectId: Type.Optional(Text({ description: 'Only secrets of this project.' })),
      ...PAGE,
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: listOf(Secret), description: 'All secrets that the key can see.' },
  errors: [],
} as const satisfies Operation;

export const getSecret = {
  id: 'getSecret',
  method: 'GET',
  path: '/v1/secrets/{secretId}',
  tag,
  summary: 'Get a secret',
  description: 'Without its value. Also returns a deleted secret.',
  scope: 'secret:read',
  idempotency: 'none',
  params: SecretParams,
  response: { status: 200, schema: SecretResponse, description: 'The secret.' },
  errors: [],
} as const satisfies Operation;

export const updateSecret = {
  id: 'updateSecret',
  method: 'PATCH',
  path: '/v1/secrets/{secretId}',
  tag,
  summary: 'Change a secret',
  description:
    'Sets the fields that the body has. Each request that a sandbox begins after the response carries the new value, and ' +
    'only to the new hosts. A key that does not know the value cannot send it to another host: a host that the secret ' +
    'does not list yet is `invalid_request` without `value`. A deleted secret is `not_found`.',
  scope: 'secret:write',
  idempotency: 'none',
  params: SecretParams,
  body: UpdateSecretBody,
  response: { status: 200, schema: SecretResponse, description: 'The changed secret.' },
  errors: [],
} as const satisfies Operation;

export const deleteSecret = {
  id: 'deleteSecret',
  method: 'DELETE',
  path: '/v1/secrets/{secretId}',
  tag,
  summary: 'Delete a secret',
  description:
    'Deletes its value. Requests that sandboxes begin after the response carry the placeholder as it is. Deleting it again ' +
    'returns it again.',
  scope: 'secret:write',
  idempotency: 'none',
  params: SecretParams,
  response: { status: 200, schema: SecretResponse, description: 'The deleted secret.' },
  errors: [],
} as const satisfies Operation;
