/** Bodies of requests for webhooks, and what was sent to them. */
import { type Static, Type } from 'typebox';
import { EVENT_TYPES, type EventType, type EventTypeFilter } from './event.ts';
import { DeliveryIdSchema, EventIdSchema, type ProjectId, WebhookIdSchema } from './ids.ts';
import { LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { documented, NO_NUL, Text } from './text.ts';
import { Timestamp, timestamp } from './timestamps.ts';

/** A filter of events: a type, the types of one kind of resource such as `sandbox.*`, or `*` for all. */
export type EventPattern = EventTypeFilter | '*';
export const EVENT_PATTERNS: readonly EventPattern[] = ['*', ...new Set(EVENT_TYPES.map(groupOf)), ...EVENT_TYPES];
const ONE_TYPE = EVENT_PATTERNS.filter((pattern) => pattern !== '*')
  .map((pattern) => pattern.replace('.', '\\.').replace('*', '\\*'))
  .join('|');
/** Types of events, or groups of them, separated by commas. */
export const EVENT_TYPES_PATTERN = `^(${ONE_TYPE})(,(${ONE_TYPE}))*$`;

/** Type of the event that `testWebhook` sends. Nothing else has it. */
export const TEST_EVENT_TYPE = 'webhook.test';

function groupOf(type: EventType): EventPattern {
  return `${type.split('.')[0]}.*` as EventPattern;
}

/** Returns the types that `patterns` select. */
export function eventTypesOf(patterns: readonly string[]): EventType[] {
  return EVENT_TYPES.filter((type) => ['*', groupOf(type), type].some((pattern) => patterns.includes(pattern)));
}

/** URLs with a host, and without a user, a password and whitespace. */
export const WEBHOOK_URL_PATTERN = '^[Hh][Tt][Tt][Pp][Ss]?://[^\\s/?#@]+([/?#]\\S*)?$';
const Url = Text({
  minLength: 1,
  maxLength: LIMITS.webhookUrlLength,
  ...documented({ format: 'uri', pattern: WEBHOOK_URL_PATTERN }),
  description:
    'An `https` URL without user and password. Its host must have a public address. The operator can permit `http` and ' +
    'ranges of private addresses.',
});
const Events = Type.Array(oneOf(EVENT_PATTERNS), {
  minItems: 1,
  maxItems: LIMITS.webhookEvents,
  description:
    'The types of events to send; `sandbox.*` stands for every type that begins with `sandbox.`, `*` for all types, also ' +
    'those of later versions.',
});

export const CreateWebhookBody = Type.Object(
  {
    url: Url,
    events: Events,
    projectId: Type.Optional(
      Type.Unsafe<ProjectId>({
        type: 'string',
        minLength: 1,
        pattern: NO_NUL,
        description:
          'Only events of this project. Default: every event of the organization, which a key bound to projects cannot choose.',
      }),
    ),
    description: Type.Optional(
      Text({ maxLength: LIMITS.webhookDescriptionLength, description: 'Purpose of the webhook, as free text.' }),
    ),
  },
  {
    $id: 'CreateWebhook',
    additionalProperties: false,
    examples: [{ url: 'https://hooks.example.com/cloche', events: ['sandbox.*', 'artifact.created'] }],
  },
);
export type CreateWebhookBody = Static<typeof CreateWebhookBody>;

export const UpdateWebhookBody = Type.Object(
  {
    url: Type.Optional(Url),
    events: Type.Optional(Events),
    enabled: Type.Optional(
      Type.Boolean({ description: 'Whether events are sent. The events wait while it is false.' }),
    ),
  },
  {
    $id: 'UpdateWebhook',
    additionalProperties: false,
    examples: [{ enabled: false }, { url: 'https://hooks.example.com/v2', events: ['*'] }],
  },
);
export type UpdateWebhookBody = Static<typeof UpdateWebhookBody>;

export const WebhookSecret = Type.String({
  description: 'The secret that signs messages; begins with `whsec_`. Only this response contains it.',
});

export const DELIVERY_STATUSES = ['pending', 'delivered', 'failed'] as const;

export const WebhookDelivery = Type.Object(
  {
    id: DeliveryIdSchema,
    webhookId: WebhookIdSchema,
    seq: Type.Integer({ minimum: 1, description: 'Number of the delivery within its webhook.' }),
    eventId: EventIdSchema,
    eventType: Type.String({ description: `Type of the event, or \`${TEST_EVENT_TYPE}\`.` }),
    eventSeq: Type.Optional(Type.Integer({ minimum: 1, description: 'Number of the event. Missing for a test.' })),
    status: oneOf(
      DELIVERY_STATUSES,
      '`pending`: it is tried again. `delivered`: the receiver answered 2xx. `failed`: it is not tried again.',
    ),
    attempts: Type.Integer({ minimum: 0, description: 'How often it was tried.' }),
    createdAt: Timestamp,
    lastAttemptAt: Type.Optional(timestamp('When it was last tried.')),
    nextAttemptAt: Type.Optional(timestamp('When it is tried again at the earliest.')),
    response: Type.Optional(
      Type.Object(
        {
          status: Type.Integer({ description: 'Status code of the answer.' }),
          body: Type.Optional(
            Type.String({
              description: 'The first 64 KiB of the answer, as text. Kept for the latest deliveries of the webhook.',
            }),
          ),
        },
        { description: 'What the receiver last answered.' },
      ),
    ),
    error: Type.Optional(
      Type.String({ description: 'Why there was no answer to the last attempt: a text for people.' }),
    ),
  },
  { $id: 'WebhookDelivery' },
);
export type WebhookDelivery = Static<typeof WebhookDelivery>;
