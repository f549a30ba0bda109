/** Describes streams of server-sent events by a schema of their frames. */
import type { TSchema } from 'typebox';
import { ERROR_CODES } from '../errors.ts';
import type { Operation } from '../operation.ts';
import { type Components, type Json, refer } from './components.ts';

export const SSE_TYPE = 'text/event-stream';

/** The last event of a stream when the service fails. */
const ERROR_EVENT = 'ErrorEvent';
const errorEvent = {
  type: 'object',
  description: 'The service failed. This is the last event. An exception in the executed code does not cause it.',
  required: ['type', 'data'],
  properties: {
    type: { const: 'error', type: 'string' },
    data: {
      type: 'object',
      required: ['name', 'message'],
      properties: {
        name: { type: 'string', enum: ERROR_CODES, description: 'Error code, as in the body of an error.' },
        message: { type: 'string', description: 'Explains for people what went wrong.' },
      },
    },
  },
  examples: [
    { type: 'error', data: { name: 'unavailable', message: 'The service is stopping; send the request again.' } },
  ],
};

type EventName = { const: string } | { enum: readonly string[] };

function namesOf(type: EventName): readonly string[] {
  return 'enum' in type ? type.enum : [type.const];
}

/** Returns the schema of a stream; it describes one frame. */
export function describeStream(operation: Operation & { events: TSchema }, components: Components): Json {
  const { events, eventIds } = operation;
  components.set(ERROR_EVENT, errorEvent);
  const union = events as TSchema & { $id?: string; anyOf: { properties: { type: EventName } }[] };
  const names = [...new Set([...union.anyOf.flatMap(({ properties }) => namesOf(properties.type)), 'error'])];
  const frame = `${union.$id}Frame`;
  components.set(frame, {
    type: 'object',
    description:
      'One frame: the lines `id: …` (if the event has an id), `event: …` and `data: …`, then an empty line. Lines that ' +
      'begin with a colon are comments, sent about every 15 seconds while nothing happens; ignore them.',
    required: ['event', 'data'],
    properties: {
      ...(eventIds === undefined ? {} : { id: { type: 'string', pattern: '^[0-9]+$', description: eventIds } }),
      event: { type: 'string', enum: names, description: 'Type of the event, as in `data`.' },
      data: {
        type: 'string',
        description: 'The event as JSON on one line.',
        contentMediaType: 'application/json',
        contentSchema: { anyOf: [refer(events, components), { $ref: `#/components/schemas/${ERROR_EVENT}` }] },
      },
    },
  });
  return { schema: { $ref: `#/components/schemas/${frame}` } };
}
