import { Type } from 'typebox';
import { WorkspaceRunIdSchema } from '../ids.ts';
import { LIMITS } from '../limits.ts';
import { createdBetween, idPrefix, listOf, oneOf, PAGE } from '../list.ts';
import type { Operation } from '../operation.ts';
import { logQuery, logStream } from '../paged-log.ts';
import { LABEL_PATTERN } from '../sandbox.ts';
import { Text } from '../text.ts';
import { CreateWorkspaceRunBody, WORKSPACE_RUN_STATUSES, WorkspaceRun } from '../workspace-run.ts';
import { WorkspaceRunEventPage, WorkspaceRunStreamEvent } from '../workspace-run-event.ts';

export const WorkspaceRunParams = Type.Object({ workspaceRunId: WorkspaceRunIdSchema });
export const WorkspaceRunResponse = Type.Object({ workspaceRun: WorkspaceRun });
const collection = '/v1/workspace-runs';
const item = `${collection}/{workspaceRunId}`;
const tag = 'Workspace runs';

export const createWorkspaceRun = {
  id: 'createWorkspaceRun',
  method: 'POST',
  path: collection,
  tag,
  summary: 'Create a workspace run',
  description:
    'Upload an archive next. The run starts by `startWorkspaceRun` or, with `autoStart`, when its archive is stored. A run ' +
    `that is not started within ${LIMITS.workspaceRunStartWithinMs / 86_400_000} days is canceled. The template version is fixed now.`,
  scope: 'workspace_run:create',
  idempotency: 'required',
  body: CreateWorkspaceRunBody,
  bodyValues: LIMITS.bodyValues + LIMITS.commandArguments,
  response: { status: 201, schema: WorkspaceRunResponse, description: 'The new run.' },
  errors: ['quota_exceeded'],
} as const satisfies Operation;

export const listWorkspaceRuns = {
  id: 'listWorkspaceRuns',
  method: 'GET',
  path: collection,
  tag,
  summary: 'List workspace runs',
  description:
    'Newest first; finished runs are kept for at least 30 days. `metadata.<key>=<value>` lists only runs with that label.',
  scope: 'workspace_run:read',
  idempotency: 'none',
  query: Type.Object(
    {
      projectId: Type.Optional(Text({ description: 'Only runs of this project.' })),
      status: Type.Optional(oneOf(WORKSPACE_RUN_STATUSES, 'Only runs with this status.')),
      idPrefix: idPrefix('wrun_', 'runs'),
      ...createdBetween('runs'),
      ...PAGE,
    },
    { patternProperties: { [LABEL_PATTERN]: Text() }, additionalProperties: false },
  ),
  response: { status: 200, schema: listOf(WorkspaceRun), description: 'All runs that the key can see.' },
  errors: [],
} as const satisfies Operation;

export const getWorkspaceRun = {
  id: 'getWorkspaceRun',
  method: 'GET',
  path: item,
  tag,
  summary: 'Get a workspace run',
  description: 'With `waitFor=finished`, the response is sent when the run has finished, or after `waitMs`.',
  scope: 'workspace_run:read',
  idempotency: 'none',
  params: WorkspaceRunParams,
  query: Type.Object(
    {
      waitFor: Type.Optional(oneOf(['finished'], 'Wait until the run has finished.')),
      waitMs: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: LIMITS.waitMaxMs,
          default: LIMITS.waitDefaultMs,
          description: 'How long to wait at most, in milliseconds.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: WorkspaceRunResponse, description: 'The run.' },
  errors: [],
} as const satisfies Operation;

export const cancelWorkspaceRun = {
  id: 'cancelWorkspaceRun',
  method: 'POST',
  path: `${item}/cancel`,
  tag,
  summary: 'Cancel a workspace run',
  description:
    'A run that no server works on yet is `canceled` in the response. The command of a running one gets `SIGTERM` and, ten ' +
    'seconds later, `SIGKILL`; nothing is exported. Wait for its end with `waitFor=finished`. A finished run is returned ' +
    'unchanged.',
  scope: 'workspace_run:create',
  idempotency: 'none',
  params: WorkspaceRunParams,
  response: { status: 200, schema: WorkspaceRunResponse, description: 'The run.' },
  errors: [],
} as const satisfies Operation;

export const startWorkspaceRun = {
  id: 'startWorkspaceRun',
  method: 'POST',
  path: `${item}/start`,
  tag,
  summary: 'Start a workspace run',
  description:
    'Puts the run into the queue. The runs of a project start in their order; projects and organizations take turns. A run ' +
    'waits while a quota or the host has no room for it. Its command runs once: after a failure of the service, the run goes ' +
    'on in the same sandbox or is `failed` with `sandbox_lost`.',
  scope: 'workspace_run:create',
  idempotency: 'required',
  params: WorkspaceRunParams,
  response: { status: 200, schema: WorkspaceRunResponse, description: 'The run.' },
  errors: ['conflict'],
} as const satisfies Operation;

export const listWorkspaceRunEvents = {
  id: 'listWorkspaceRunEvents',
  method: 'GET',
  path: `${item}/events`,
  tag,
  summary: 'Read the events of a workspace run',
  description:
    'Statuses, output and artifacts in one sequence. Pages are addressed by sequence number: no event is lost or repeated ' +
    `while the run goes on. The last ${LIMITS.workspaceRunOutputBytes} bytes of output are kept; a \`system\` event says how ` +
    `much was dropped before it. Events are kept for ${LIMITS.workspaceRunEventsKeptMs / 86_400_000} days after the end of ` +
    'the run. A page may have fewer than `limit` events, although `hasMore` is true.',
  scope: 'workspace_run:read',
  idempotency: 'none',
  params: WorkspaceRunParams,
  query: logQuery('events', LIMITS.workspaceRunEventsPerPage),
  response: { status: 200, schema: WorkspaceRunEventPage, description: 'A page of events.' },
  errors: [],
} as const satisfies Operation;

export const streamWorkspaceRunEvents = {
  id: 'streamWorkspaceRunEvents',
  method: 'GET',
  path: `${item}/events/stream`,
  tag,
  summary: 'Follow the events of a workspace run',
  description:
    'Server-sent events: each event of the run, then `exit` with the run when it has finished, or `error` if the service ' +
    'failed. The id of an event is its sequence number; `Last-Event-ID` or `afterSeq` resumes the stream. The run goes on if ' +
    'the client disconnects.',
  scope: 'workspace_run:read',
  idempotency: 'none',
  params: WorkspaceRunParams,
  ...logStream('events', 'exit'),
  events: WorkspaceRunStreamEvent,
  errors: [],
} as const satisfies Operation;
