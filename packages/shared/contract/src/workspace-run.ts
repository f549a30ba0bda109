import { type Static, Type } from 'typebox';
import { CommandLine } from './command.ts';
import {
  ArtifactIdSchema,
  OrgIdSchema,
  ProjectIdSchema,
  SandboxIdSchema,
  TemplateIdSchema,
  TemplateVersionIdSchema,
  WorkspaceRunIdSchema,
} from './ids.ts';
import { DEFAULT_CWD, LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { NetworkPolicy } from './network-policy.ts';
import { CreateSandboxBody, Resources } from './sandbox.ts';
import { documented, Text } from './text.ts';
import { Timestamp, timestamp } from './timestamps.ts';

export const WORKSPACE_RUN_STATUSES = [
  'awaiting_archive',
  'archived',
  'queued',
  'running',
  'succeeded',
  'failed',
  'timed_out',
  'canceled',
] as const;
export type WorkspaceRunStatus = (typeof WORKSPACE_RUN_STATUSES)[number];

/** Statuses of a run that has not finished. */
export const UNFINISHED_RUN_STATUSES = [
  'awaiting_archive',
  'archived',
  'queued',
  'running',
] as const satisfies readonly WorkspaceRunStatus[];
/** Statuses of a run that has finished. They do not change any more. */
export const FINISHED_RUN_STATUSES = [
  'succeeded',
  'failed',
  'timed_out',
  'canceled',
] as const satisfies readonly WorkspaceRunStatus[];

export const WORKSPACE_ARCHIVE_FORMATS = ['tar', 'tar.gz', 'tar.zst', 'zip'] as const;
export type WorkspaceArchiveFormat = (typeof WORKSPACE_ARCHIVE_FORMATS)[number];

/** Why a run is `failed` although its command did not end with a code or a signal. */
export const WORKSPACE_RUN_ERRORS = [
  'sandbox_lost',
  'sandbox_failed',
  'archive_not_unpacked',
  'command_not_started',
  'internal',
] as const;

/** The reasons for which a queued run waits, besides its turn. */
export const WORKSPACE_RUN_WAITS = ['capacity'] as const;

export const WorkspaceArchive = Type.Object(
  {
    format: oneOf(WORKSPACE_ARCHIVE_FORMATS),
    sizeBytes: Type.Integer({ minimum: 0, description: 'Size of the archive as it was uploaded.' }),
    sha256: Type.String({ description: 'SHA-256 of the archive, in hexadecimal.' }),
    entries: Type.Integer({ minimum: 0, description: 'Files, directories and links in the archive.' }),
  },
  { $id: 'WorkspaceArchive' },
);
export type WorkspaceArchive = Static<typeof WorkspaceArchive>;

export const WorkspaceRunError = Type.Object(
  {
    code: oneOf(
      WORKSPACE_RUN_ERRORS,
      '`sandbox_lost`: the sandbox ended before the command did, for example because a client destroyed it. ' +
        '`sandbox_failed`: the sandbox could not be created. `archive_not_unpacked`: the archive could not be unpacked. ' +
        '`command_not_started`: the command could not be started. `internal`: the service failed.',
    ),
    message: Type.String({ description: 'Explains for people what happened.' }),
  },
  { $id: 'WorkspaceRunError' },
);
export type WorkspaceRunError = Static<typeof WorkspaceRunError>;

export const WorkspaceRun = Type.Object(
  {
    id: WorkspaceRunIdSchema,
    orgId: OrgIdSchema,
    projectId: ProjectIdSchema,
    status: oneOf(
      WORKSPACE_RUN_STATUSES,
      '`awaiting_archive`: it was created. `archived`: its archive is stored. `queued`: it was started and waits for its ' +
        'turn. `running`: it has a sandbox. `succeeded`: the command ended with exit code 0. `failed`: it ended with another ' +
        'code or by a signal, or `error` says what happened. `timed_out`: its `timeoutMs` passed. `canceled`: a client ' +
        'canceled it, or it was not started in time.',
    ),
    command: Type.Union([Type.String(), Type.Array(Type.String())], {
      description: 'The command as it was requested.',
    }),
    cwd: Type.String({ description: 'Working directory.' }),
    timeoutMs: Type.Integer({ description: 'Time limit of the command, in milliseconds.' }),
    templateId: TemplateIdSchema,
    templateSlug: Type.String({ description: 'Slug of the template, such as `python-node`.' }),
    templateVersion: Type.String({ description: 'Version of the template.' }),
    templateVersionId: TemplateVersionIdSchema,
    resources: Type.Required(Resources),
    networkPolicy: NetworkPolicy,
    artifacts: Type.Array(Type.String(), { description: 'The patterns that select artifacts.' }),
    autoStart: Type.Boolean({ description: 'Whether the run starts by itself when its archive is stored.' }),
    metadata: Type.Record(Type.String(), Type.String(), { description: 'The labels that were set at creation.' }),
    archive: Type.Optional(WorkspaceArchive),
    sandboxId: Type.Optional(SandboxIdSchema),
    exitCode: Type.Optional(
      Type.Integer({ description: 'Exit code of the command, as in a shell: 128 plus the number of a signal.' }),
    ),
    signal: Type.Optional(Type.String({ description: 'Signal that ended the command, such as `SIGKILL`.' })),
    error: Type.Optional(WorkspaceRunError),
    waitsFor: Type.Optional(
      oneOf(
        WORKSPACE_RUN_WAITS,
        'What a `queued` run waits for besides its turn. `capacity`: no host had room for its sandbox; the service tries ' +
          'again, and at once when a sandbox has ended.',
      ),
    ),
    artifactIds: Type.Array(ArtifactIdSchema, {
      description: 'Ids of the artifacts of the run. Complete when the run has finished.',
    }),
    createdAt: Timestamp,
    queuedAt: Type.Optional(timestamp('When it was started.')),
    startedAt: Type.Optional(timestamp('When it got its sandbox.')),
    cancelRequestedAt: Type.Optional(timestamp('When a client canceled it.')),
    finishedAt: Type.Optional(timestamp('When it finished.')),
  },
  { $id: 'WorkspaceRun' },
);
export type WorkspaceRun = Static<typeof WorkspaceRun>;

const sandboxFields = CreateSandboxBody.properties;

/** Names relative to `/workspace`: no empty name, `.` or `..`, and no other special characters than `*` and `?`. */
export const ARTIFACT_PATTERN = '^(?!(?:[^]*/)?\\.{0,2}(?:/|$))[^\\u0000\\\\\\[\\]{}]+$';

export const CreateWorkspaceRunBody = Type.Object(
  {
    command: CommandLine,
    projectId: sandboxFields.projectId,
    template: sandboxFields.template,
    templateVersionId: sandboxFields.templateVersionId,
    env: sandboxFields.env,
    secrets: sandboxFields.secrets,
    resources: sandboxFields.resources,
    networkPolicy: sandboxFields.networkPolicy,
    cwd: Type.Optional(
      Text({
        minLength: 1,
        maxLength: LIMITS.cwdLength,
        default: DEFAULT_CWD,
        description:
          'Working directory: any directory that the user may enter. Relative paths are resolved against `/workspace`, where ' +
          'the archive is unpacked.',
      }),
    ),
    timeoutMs: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: LIMITS.workspaceRunTimeoutMaxMs,
        default: LIMITS.workspaceRunTimeoutDefaultMs,
        description: 'Ends all processes of the command after this many milliseconds.',
      }),
    ),
    artifacts: Type.Optional(
      Type.Array(
        Text({ minLength: 1, maxLength: LIMITS.artifactPatternLength, ...documented({ pattern: ARTIFACT_PATTERN }) }),
        {
          maxItems: LIMITS.artifactPatterns,
          description:
            'Paths below `/workspace` whose files become artifacts when the command has ended, with whatever result. `*` stands ' +
            'for any part of a name, `?` for one character, `**` as a whole name for any number of directories. `..`, a leading ' +
            `slash and the characters \`[]{}\\\` are refused. At most ${LIMITS.workspaceRunArtifacts} files are exported.`,
          examples: [['dist/**', 'reports/*.xml']],
        },
      ),
    ),
    autoStart: Type.Optional(
      Type.Boolean({ default: false, description: 'Start the run by itself when its archive is stored.' }),
    ),
    metadata: sandboxFields.metadata,
  },
  {
    $id: 'CreateWorkspaceRun',
    additionalProperties: false,
    examples: [{ command: 'make test' }, { command: ['npm', 'run', 'build'], artifacts: ['dist/**'], autoStart: true }],
  },
);
export type CreateWorkspaceRunBody = Static<typeof CreateWorkspaceRunBody>;
