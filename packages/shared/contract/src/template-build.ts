/** Builds: each runs a recipe in a sandbox and makes a version of a template. */
import { type Static, Type } from 'typebox';
import {
  OrgIdSchema,
  SandboxIdSchema,
  TemplateBuildIdSchema,
  TemplateIdSchema,
  TemplateVersionIdSchema,
} from './ids.ts';
import { LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { logPage } from './paged-log.ts';
import { Timestamp, timestamp } from './timestamps.ts';

export const TEMPLATE_BUILD_STATUSES = ['queued', 'running', 'succeeded', 'failed', 'canceled'] as const;
export type TemplateBuildStatus = (typeof TEMPLATE_BUILD_STATUSES)[number];

export const TEMPLATE_BUILD_ERRORS = {
  step_failed: 'A step ended with another exit code than 0, or could not be run.',
  timed_out: `The build took more than ${LIMITS.templateBuildMs / 60_000} minutes.`,
  disk_full: 'A step filled the disk of the build.',
  sandbox_lost: 'The sandbox of the build ended: its processes were killed, or a client destroyed it.',
  not_launched: 'The sandbox of the build could not be created.',
  no_capacity: 'No host had room for the sandbox of the build before its time was over. Build again later.',
  too_large: 'The version is larger than the quota or the host permits.',
  conflict: 'The host removed results of the build faster than its steps made them. Build again.',
  internal: 'The service failed. Build again.',
} as const;
export type TemplateBuildErrorCode = keyof typeof TEMPLATE_BUILD_ERRORS;

export const TEMPLATE_STEP_STATUSES = ['pending', 'running', 'cached', 'succeeded', 'failed'] as const;
export type TemplateStepStatus = (typeof TEMPLATE_STEP_STATUSES)[number];

const Step = Type.Object({
  description: Type.String({
    description: 'What the step does, such as `pip install jinja2` or a shell line, shortened.',
  }),
  status: oneOf(
    TEMPLATE_STEP_STATUSES,
    '`cached`: an earlier build has run the same step after the same steps, so it was not run again.',
  ),
});

export const TemplateBuild = Type.Object(
  {
    id: TemplateBuildIdSchema,
    orgId: OrgIdSchema,
    templateId: TemplateIdSchema,
    templateSlug: Type.String({ description: 'Slug of the template.' }),
    status: oneOf(
      TEMPLATE_BUILD_STATUSES,
      '`queued`: it waits until other builds have ended. `running`: its steps run. `succeeded`: `templateVersionId` can be ' +
        'used. `failed`: `error` says why; the version before stays in force. `canceled`: a client ended it.',
    ),
    fromVersionId: Type.String({ description: 'Version that the recipe starts from, as `from` resolved at creation.' }),
    steps: Type.Array(Step, { description: 'The steps of the recipe, in order.' }),
    sandboxId: Type.Optional(SandboxIdSchema),
    templateVersionId: Type.Optional(TemplateVersionIdSchema),
    error: Type.Optional(
      Type.Object({
        code: oneOf(
          Object.keys(TEMPLATE_BUILD_ERRORS) as TemplateBuildErrorCode[],
          Object.entries(TEMPLATE_BUILD_ERRORS)
            .map(([code, description]) => `\`${code}\`: ${description}`)
            .join(' '),
        ),
        message: Type.String({ description: 'Explains for people why the build failed.' }),
        step: Type.Optional(Type.Integer({ minimum: 1, description: 'Number of the step that failed, from 1.' })),
      }),
    ),
    createdAt: Timestamp,
    startedAt: Type.Optional(timestamp('When it began to run.')),
    finishedAt: Type.Optional(timestamp('When it ended.')),
  },
  { $id: 'TemplateBuild', description: 'A build of a version. `sandboxId` is the sandbox that its steps run in.' },
);
export type TemplateBuild = Static<typeof TemplateBuild>;

export const TemplateBuildLogEntry = Type.Object(
  {
    seq: Type.Integer({ minimum: 1, description: 'Sequence number of the entry.' }),
    step: Type.Integer({ minimum: 0, description: 'Number of the step, from 1; 0 for the build as a whole.' }),
    stream: oneOf(['stdout', 'stderr', 'system'], '`system`: a note of the service.'),
    data: Type.String({ description: 'The text. Bytes that are not UTF-8 are replaced; no character is split.' }),
    at: timestamp('When it was written.'),
  },
  {
    $id: 'TemplateBuildLogEntry',
    examples: [{ seq: 1, step: 1, stream: 'stdout', data: 'hello\n', at: '2026-01-01T00:00:00.000Z' }],
  },
);
export type TemplateBuildLogEntry = Static<typeof TemplateBuildLogEntry>;

export const TemplateBuildLogPage = logPage('TemplateBuildLogPage', TemplateBuildLogEntry, 'entries');
export type TemplateBuildLogPage = Static<typeof TemplateBuildLogPage>;

/** Events of a build's stream. `complete` is the last, unless the service fails and the stream ends with `error`. */
export const TemplateBuildEvent = Type.Union(
  [
    Type.Object(
      { type: Type.Literal('log'), data: TemplateBuildLogEntry },
      { description: 'An entry of the log. The id of the event is its `seq`.' },
    ),
    Type.Object(
      { type: Type.Literal('complete'), data: TemplateBuild },
      { description: 'The build has ended. This is the last event.' },
    ),
  ],
  { $id: 'TemplateBuildEvent' },
);
export type TemplateBuildEvent = Static<typeof TemplateBuildEvent>;
