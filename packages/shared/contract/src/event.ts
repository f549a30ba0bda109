/** Events: what happened to the resources of an organization. */
import { type Static, type TProperties, Type } from 'typebox';
import { ApiKey } from './api-key.ts';
import { Artifact } from './artifact.ts';
import { EventIdSchema, OrgIdSchema, ProjectIdSchema } from './ids.ts';
import { oneOf } from './list.ts';
import { Preview } from './preview.ts';
import { Project } from './project.ts';
import { QuotaUse } from './quota.ts';
import { Sandbox } from './sandbox.ts';
import { Template } from './template.ts';
import { TemplateBuild } from './template-build.ts';
import { timestamp } from './timestamps.ts';
import { Webhook } from './webhook.ts';
import { WORKSPACE_RUN_STATUSES, WorkspaceRun, type WorkspaceRunStatus } from './workspace-run.ts';

const SANDBOX_EVENTS = [
  'sandbox.created',
  'sandbox.ready',
  'sandbox.extended',
  'sandbox.updated',
  'sandbox.paused',
  'sandbox.resumed',
  'sandbox.memory_lost',
  'sandbox.retention_ending',
  'sandbox.destroyed',
  'sandbox.failed',
] as const;
const ARTIFACT_EVENTS = ['artifact.created', 'artifact.deleted'] as const;
const PREVIEW_EVENTS = ['preview.created', 'preview.deleted'] as const;
const PROJECT_EVENTS = ['project.created', 'project.deleted'] as const;
const API_KEY_EVENTS = ['api_key.created', 'api_key.rotated', 'api_key.revoked'] as const;
export type ApiKeyEventType = (typeof API_KEY_EVENTS)[number];
const WEBHOOK_EVENTS = ['webhook.disabled'] as const;
const TEMPLATE_EVENTS = ['template.created', 'template.deleted'] as const;
const TEMPLATE_BUILD_EVENTS = ['template_build.succeeded', 'template_build.failed', 'template_build.canceled'] as const;
const QUOTA_EVENTS = ['quota.exceeded'] as const;
type WorkspaceRunEventType = `workspace_run.${WorkspaceRunStatus}`;
const WORKSPACE_RUN_EVENTS = WORKSPACE_RUN_STATUSES.map((status) => `workspace_run.${status}` as WorkspaceRunEventType);

/** Types of events. A resource's group is the part before the dot. */
export const EVENT_TYPES = [
  ...SANDBOX_EVENTS,
  ...ARTIFACT_EVENTS,
  ...PREVIEW_EVENTS,
  ...PROJECT_EVENTS,
  ...API_KEY_EVENTS,
  ...TEMPLATE_EVENTS,
  ...TEMPLATE_BUILD_EVENTS,
  ...WEBHOOK_EVENTS,
  ...QUOTA_EVENTS,
  ...WORKSPACE_RUN_EVENTS,
] as const;
export type EventType = (typeof EVENT_TYPES)[number];
type GroupOf<Type> = Type extends `${infer Group}.${string}` ? Group : never;
/** A type, or all types of a group. */
export type EventTypeFilter = EventType | `${GroupOf<EventType>}.*`;

/** `data` has the resource under its name, as in the response of the operation that gets it. */
const eventOf = <const Types extends readonly string[], Data extends TProperties>(
  types: Types,
  data: Data,
  description: string,
) =>
  Type.Object(
    {
      seq: Type.Integer({
        minimum: 1,
        description:
          'Number of the event within the organization. Events are numbered from 1 in the order in which they happened, without gaps.',
      }),
      id: EventIdSchema,
      type: oneOf(types),
      at: timestamp('When it happened.'),
      orgId: OrgIdSchema,
      projectId: Type.Optional(ProjectIdSchema),
      data: Type.Object(data, {
        description: 'The resource right after the event, as its operation returns it, without secrets.',
      }),
    },
    { description },
  );

/** An event, told apart by `type`. It has no `projectId` if the resource belongs to the whole organization. */
export const ResourceEvent = Type.Union(
  [
    eventOf(
      SANDBOX_EVENTS,
      { sandbox: Sandbox },
      '`sandbox.extended`: its lifetime was set anew. `sandbox.updated`: its name or labels were. `sandbox.resumed`: it accepts work again. `sandbox.memory_lost`: it is still paused, and files alone are kept. `sandbox.retention_ending`: it is paused, and will be destroyed in 24 hours; once for each pause, again after an extension, and never for a retention of 24 hours or less. `sandbox.destroyed`: its instance is gone; `destroyedReason` says why.',
    ),
    eventOf(
      ARTIFACT_EVENTS,
      { artifact: Artifact },
      '`artifact.deleted`: a client deleted it, or its retention period is over.',
    ),
    eventOf(
      PREVIEW_EVENTS,
      { preview: Preview },
      '`preview.deleted`: a client deleted it. A preview that closes because its time is up or its sandbox ends has no event of its own.',
    ),
    eventOf(PROJECT_EVENTS, { project: Project }, 'The default project of an organization has no event.'),
    eventOf(
      API_KEY_EVENTS,
      { apiKey: ApiKey },
      'Changes by clients and by the operator. `api_key.rotated` has the successor, whose `rotatedFrom` names the old key.',
    ),
    eventOf(TEMPLATE_EVENTS, { template: Template }, 'Of templates of the organization.'),
    eventOf(
      TEMPLATE_BUILD_EVENTS,
      { build: TemplateBuild },
      '`template_build.succeeded`: its version can be used. `template_build.failed`: `error` says why.',
    ),
    eventOf(
      WEBHOOK_EVENTS,
      { webhook: Webhook },
      'The service disabled the webhook by itself; `disabledReason` says why. It has a `projectId` if the webhook has one.',
    ),
    eventOf(
      QUOTA_EVENTS,
      { quota: QuotaUse },
      'A limit refused a request. For each quota and project there is at most one such event in a minute.',
    ),
    eventOf(
      WORKSPACE_RUN_EVENTS,
      { workspaceRun: WorkspaceRun },
      'The workspace run has the status that the type names. `workspace_run.awaiting_archive`: it was created.',
    ),
  ],
  { $id: 'ResourceEvent' },
);
export type ResourceEvent = Static<typeof ResourceEvent>;

export const EventPage = Type.Object(
  {
    data: Type.Array(ResourceEvent),
    nextSeq: Type.Integer({
      minimum: 0,
      description:
        'Value of `afterSeq` that requests the next page. It is at most the `seq` of the last event of the organization, ' +
        'whatever `afterSeq` was.',
    }),
    hasMore: Type.Boolean({ description: 'Whether there are later events already, filtered or not.' }),
  },
  { $id: 'EventPage' },
);
export type EventPage = Static<typeof EventPage>;
