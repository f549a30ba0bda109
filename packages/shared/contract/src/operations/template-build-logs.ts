import { LIMITS } from '../limits.ts';
import type { Operation } from '../operation.ts';
import { logQuery, logStream } from '../paged-log.ts';
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
  query: logQuery('entries', LIMITS.commandLogEntries),
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
  ...logStream('entries', 'complete'),
  events: TemplateBuildEvent,
  errors: [],
} as const satisfies Operation;
