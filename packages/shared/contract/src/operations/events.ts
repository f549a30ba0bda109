import { Type } from 'typebox';
import { EVENT_TYPES, EventPage, ResourceEvent } from '../event.ts';
import { LIMITS } from '../limits.ts';
import { afterSeq } from '../list.ts';
import type { Operation } from '../operation.ts';
import { documented, Text } from '../text.ts';
import { EVENT_TYPES_PATTERN } from '../webhook-requests.ts';

const common = { tag: 'Events', method: 'GET', scope: 'event:read', idempotency: 'none' } as const;

const filter = {
  types: Type.Optional(
    Text({
      minLength: 1,
      maxLength: LIMITS.eventTypesLength,
      ...documented({ pattern: EVENT_TYPES_PATTERN }),
      description:
        'Only events of these types, separated by commas. `sandbox.*` stands for every type that begins with `sandbox.`. ' +
        `Types: ${EVENT_TYPES.map((type) => `\`${type}\``).join(', ')}.`,
    }),
  ),
  projectId: Type.Optional(Text({ description: 'Only events of this project.' })),
};

export const listEvents = {
  ...common,
  id: 'listEvents',
  path: '/v1/events',
  summary: 'List events',
  description:
    'Oldest first, in pages addressed by sequence number: continue with `nextSeq` as `afterSeq`, and no event is lost or ' +
    'repeated, however many servers append events. A page looks through a bounded number of events, so with a filter it ' +
    'may have fewer than `limit`, even none, although `hasMore` is true. Without `projectId`, a key that is bound to projects ' +
    'sees the events of those projects only. Events are kept for 30 days, unless the operator chose another time.',
  query: Type.Object(
    {
      afterSeq: Type.Optional(afterSeq('events')),
      limit: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: LIMITS.eventsPerPage,
          default: 100,
          description: 'Maximum number of events in the page.',
        }),
      ),
      ...filter,
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: EventPage, description: 'A page of events.' },
  errors: [],
} as const satisfies Operation;

export const streamEvents = {
  ...common,
  id: 'streamEvents',
  path: '/v1/events/stream',
  summary: 'Follow events',
  description:
    'Server-sent events, each right after its change: first the kept events after `afterSeq`, then new ones. The name of a ' +
    'frame is the type of its event, and the id is its `seq`; `Last-Event-ID` or `afterSeq` resumes the stream without losing ' +
    'or repeating an event. The stream does not end by itself; if the service fails or stops, it ends with `error`.',
  query: Type.Object({ afterSeq: Type.Optional(afterSeq('events')), ...filter }, { additionalProperties: false }),
  response: { status: 200, schema: Type.String(), description: 'A stream of events.' },
  events: ResourceEvent,
  eventIds: 'The `seq` of the event. `error` has no id.',
  headers: { 'last-event-id': 'Resumes the stream after the event with this id. It takes precedence over `afterSeq`.' },
  errors: [],
} as const satisfies Operation;
