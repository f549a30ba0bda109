/** Webhooks: URLs that receive the events of an organization. */
import { type Static, Type } from 'typebox';
import { OrgIdSchema, ProjectIdSchema, WebhookIdSchema } from './ids.ts';
import { oneOf } from './list.ts';
import { Timestamp, timestamp } from './timestamps.ts';

/** Why the service disabled a webhook by itself. */
export const WEBHOOK_DISABLED_REASONS = ['gone', 'failing'] as const;

export const Webhook = Type.Object(
  {
    id: WebhookIdSchema,
    orgId: OrgIdSchema,
    projectId: Type.Optional(ProjectIdSchema),
    url: Type.String({
      description:
        'Where events are sent, by POST. In events, its path and query are left out, because they may hold a token.',
    }),
    events: Type.Array(Type.String(), {
      description: 'The types of events that are sent. `sandbox.*` stands for every type that begins with `sandbox.`.',
    }),
    description: Type.Optional(Type.String({ description: 'Purpose of the webhook, as free text.' })),
    enabled: Type.Boolean({
      description:
        'Whether events are sent. A webhook that is enabled again continues after the last event that it sent.',
    }),
    disabledReason: Type.Optional(
      oneOf(
        WEBHOOK_DISABLED_REASONS,
        'Why the service disabled it: `gone`, because the receiver answered 410; `failing`, because no delivery succeeded ' +
          'for five days.',
      ),
    ),
    failingSince: Type.Optional(
      timestamp('When the first of the latest deliveries failed, with none that succeeded since.'),
    ),
    nextAttemptAt: Type.Optional(
      timestamp('When the delivery that failed is tried again; the later events wait for it.'),
    ),
    lostEvents: Type.Optional(
      Type.Object(
        {
          firstSeq: Type.Integer({ minimum: 1, description: 'Number of the first of these events.' }),
          lastSeq: Type.Integer({ minimum: 1, description: 'Number of the last of these events.' }),
        },
        {
          description:
            'The latest events that were deleted, as old ones are, before it was their turn to be sent. Some may be of ' +
            'types or projects that the webhook does not send.',
        },
      ),
    ),
    previousSecretExpiresAt: Type.Optional(
      timestamp('Until when messages are also signed with the secret before the last rotation.'),
    ),
    createdAt: Timestamp,
    updatedAt: timestamp('When its URL, its events or its state were last set.'),
    deletedAt: Type.Optional(timestamp('When the webhook was deleted.')),
  },
  { $id: 'Webhook', description: 'It has a `projectId` if only events of that project are sent.' },
);
export type Webhook = Static<typeof Webhook>;
