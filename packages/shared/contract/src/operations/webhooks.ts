import { Type } from 'typebox';
import { DeliveryIdSchema, WebhookIdSchema } from '../ids.ts';
import { LIMITS } from '../limits.ts';
import { afterSeq, listOf, PAGE } from '../list.ts';
import type { Operation } from '../operation.ts';
import { Text } from '../text.ts';
import { Webhook } from '../webhook.ts';
import { CreateWebhookBody, UpdateWebhookBody, WebhookDelivery, WebhookSecret } from '../webhook-requests.ts';

const tag = 'Webhooks';
const WebhookParams = Type.Object({ webhookId: WebhookIdSchema });
const WebhookResponse = Type.Object({ webhook: Webhook });
const SecretResponse = Type.Object({ webhook: Webhook, secret: WebhookSecret });
const DeliveryResponse = Type.Object({ delivery: WebhookDelivery });

export const createWebhook = {
  id: 'createWebhook',
  method: 'POST',
  path: '/v1/webhooks',
  tag,
  summary: 'Create a webhook',
  description:
    'Events from now on are sent to the URL, each at least once and in their order, signed as the Standard Webhooks ' +
    'specification says. The secret is shown once, and once more to the same key with the same `Idempotency-Key`. A delivery ' +
    'without a 2xx answer within 15 seconds has failed: it is tried again after 5 and 30 seconds, every minute for ' +
    'an hour, and then at growing intervals for five days, while later events wait.',
  scope: 'webhook:write',
  idempotency: 'optional',
  secretAnswer: true,
  body: CreateWebhookBody,
  response: { status: 201, schema: SecretResponse, description: 'The webhook and its secret.' },
  errors: ['quota_exceeded'],
} as const satisfies Operation;

export const listWebhooks = {
  id: 'listWebhooks',
  method: 'GET',
  path: '/v1/webhooks',
  tag,
  summary: 'List webhooks',
  description: 'Newest first, without deleted ones. A key that is bound to projects sees only the webhooks of these.',
  scope: 'webhook:read',
  idempotency: 'none',
  query: Type.Object(
    {
      projectId: Type.Optional(Text({ description: 'Only webhooks of this project.' })),
      ...PAGE,
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: listOf(Webhook), description: 'All webhooks that the key can see.' },
  errors: [],
} as const satisfies Operation;

export const getWebhook = {
  id: 'getWebhook',
  method: 'GET',
  path: '/v1/webhooks/{webhookId}',
  tag,
  summary: 'Get a webhook',
  description: 'Also returns a deleted webhook. The secret is returned only when it is created.',
  scope: 'webhook:read',
  idempotency: 'none',
  params: WebhookParams,
  response: { status: 200, schema: WebhookResponse, description: 'The webhook.' },
  errors: [],
} as const satisfies Operation;

export const updateWebhook = {
  id: 'updateWebhook',
  method: 'PATCH',
  path: '/v1/webhooks/{webhookId}',
  tag,
  summary: 'Change a webhook',
  description:
    'Changes only the given fields. After a new URL or `enabled: true`, failed deliveries are tried again at once. While a ' +
    'webhook is not enabled, its events wait, as long as events are kept. A deleted webhook is `not_found`.',
  scope: 'webhook:write',
  idempotency: 'none',
  params: WebhookParams,
  body: UpdateWebhookBody,
  response: { status: 200, schema: WebhookResponse, description: 'The changed webhook.' },
  errors: [],
} as const satisfies Operation;

export const deleteWebhook = {
  id: 'deleteWebhook',
  method: 'DELETE',
  path: '/v1/webhooks/{webhookId}',
  tag,
  summary: 'Delete a webhook',
  description:
    'Nothing more is sent, and its deliveries and its secret are deleted. Deleting it again returns it again.',
  scope: 'webhook:write',
  idempotency: 'none',
  params: WebhookParams,
  response: { status: 200, schema: WebhookResponse, description: 'The deleted webhook.' },
  errors: [],
} as const satisfies Operation;

export const rotateWebhookSecret = {
  id: 'rotateWebhookSecret',
  method: 'POST',
  path: '/v1/webhooks/{webhookId}/rotate-secret',
  tag,
  summary: "Rotate a webhook's secret",
  description:
    'For 24 hours, messages are signed with the new secret and with the one before it. The new secret is shown once, and ' +
    'once more to the same key with the same `Idempotency-Key`.',
  scope: 'webhook:write',
  idempotency: 'optional',
  secretAnswer: true,
  params: WebhookParams,
  response: { status: 200, schema: SecretResponse, description: 'The webhook and its new secret.' },
  errors: [],
} as const satisfies Operation;

export const testWebhook = {
  id: 'testWebhook',
  method: 'POST',
  path: '/v1/webhooks/{webhookId}/test',
  tag,
  summary: 'Test a webhook',
  description:
    'Sends an event of type `webhook.test` once and returns the result, at most 15 seconds later. It does not wait for ' +
    'earlier events, and is sent also if the webhook is not enabled. While 16 messages of the organization are under way, it ' +
    'is `rate_limited`.',
  scope: 'webhook:write',
  idempotency: 'optional',
  params: WebhookParams,
  response: { status: 200, schema: DeliveryResponse, description: 'The delivery: `delivered` or `failed`.' },
  errors: [],
} as const satisfies Operation;

export const listWebhookDeliveries = {
  id: 'listWebhookDeliveries',
  method: 'GET',
  path: '/v1/webhooks/{webhookId}/deliveries',
  tag,
  summary: 'List deliveries of a webhook',
  description:
    'Oldest first. While `hasMore` is true, continue with the `seq` of the last one as `afterSeq`. An event has a delivery ' +
    'after its first attempt. Deliveries are kept as long as events.',
  scope: 'webhook:read',
  idempotency: 'none',
  params: WebhookParams,
  query: Type.Object(
    {
      afterSeq: Type.Optional(afterSeq('deliveries')),
      limit: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: LIMITS.eventsPerPage,
          default: 100,
          description: 'Maximum number of deliveries in the page.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  response: {
    status: 200,
    schema: Type.Object({
      data: Type.Array(WebhookDelivery),
      hasMore: Type.Boolean({ description: 'Whether there are later deliveries already.' }),
    }),
    description: 'A page of deliveries.',
  },
  errors: [],
} as const satisfies Operation;

export const resendWebhookDelivery = {
  id: 'resendWebhookDelivery',
  method: 'POST',
  path: '/v1/webhooks/{webhookId}/deliveries/{deliveryId}/resend',
  tag,
  summary: 'Send a delivery again',
  description:
    'Tries the delivery again at once, also if it succeeded before, with the same `webhook-id`. If it fails, it is tried ' +
    'again at the usual intervals. A webhook that is not enabled, an event that is no longer kept, and a test are `conflict`.',
  scope: 'webhook:write',
  idempotency: 'none',
  params: Type.Object({ webhookId: WebhookIdSchema, deliveryId: DeliveryIdSchema }),
  response: { status: 202, schema: DeliveryResponse, description: 'The delivery, which is `pending`.' },
  errors: ['conflict'],
} as const satisfies Operation;
