import { Type } from 'typebox';
import { LIMITS } from '../limits.ts';
import { afterSeq } from '../list.ts';
import type { Operation } from '../operation.ts';
import { TemplateBuildEvent, TemplateBuildLogPage } from '../template-build.ts';
import { BuildParams } from './template-builds.ts';

const tag = 'Templates';
const collection = '/v1/templates/{template}/builds/{buildId}/logs';

export const listTemplateBuildLogs = {
  id: 'listTemplateBuildLogs',
  method: 'GET',
  path: collection,
  tag,
  summary: 'Read the log of a build',
  description:
    'Pages are addressed by sequence number: no entry is lost or repeated while the build runs. The log keeps the last ' +
    `${LIMITS.templateBuildLogBytes} bytes; an entry of the stream \`system\` states how much was dropped before it. Steps ` +
    'that were not run again have no output.',
  scope: 'template:read',
  idempotency: 'none',
  params: BuildParams,
  query: Type.Object(
    {
      afterSeq: Type.Optional(afterSeq('entries')),
      limit: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: LIMITS.commandLogEntries,
          default: 100,
          description: 'Maximum number of entries in the page.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: TemplateBuildLogPage, description: 'A page of entries.' },
  errors: [],
} as const satisfies Operation;

export const streamTemplateBuildLogs = {
  id: 'streamTemplateBuildLogs',
  method: 'GET',
  path: `${collection}/stream`,
  tag,
  summary: 'Follow the log of a build',
  description:
    'Server-sent events: `log` for each entry, then `complete` with the build, or `error` if the service failed. The id of ' +
    'an event is the sequence number of its entry; `Last-Event-ID` or `afterSeq` resumes the stream. The build keeps ' +
    'running if the client disconnects.',
  scope: 'template:read',
  idempotency: 'none',
  params: BuildParams,
  query: Type.Object({ afterSeq: Type.Optional(afterSeq('entries')) }, { additionalProperties: false }),
  response: { status: 200, schema: Type.String(), description: 'A stream of events.' },
  events: TemplateBuildEvent,
  eventIds: 'Sequence number of the entry. The events `complete` and `error` have no id.',
  headers: { 'last-event-id': 'Resumes the stream after the event with this id. It takes precedence over `afterSeq`.' },
  errors: [],
} as const satisfies Operation;
