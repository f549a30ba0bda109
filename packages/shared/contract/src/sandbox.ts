import { type Static, Type } from 'typebox';
import { ENVIRONMENT_NAME, environment } from './environment.ts';
import {
  OrgIdSchema,
  ProjectIdSchema,
  SandboxIdSchema,
  type SecretId,
  TemplateIdSchema,
  TemplateVersionIdSchema,
} from './ids.ts';
import { DEFAULT_TEMPLATE, LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { NetworkPolicy } from './network-policy.ts';
import { PausePolicy, SandboxPause } from './pause-policy.ts';
import { UniqueName } from './sandbox-name.ts';
import { StartCommand } from './start-command.ts';
import { documented, NO_NUL, Text } from './text.ts';
import { Timestamp, timestamp } from './timestamps.ts';

export const SANDBOX_STATUSES = [
  'creating',
  'starting',
  'ready',
  'running',
  'idle',
  'expiring',
  'destroyed',
  'failed',
] as const;
export type SandboxStatus = (typeof SANDBOX_STATUSES)[number];

const LAUNCHING = { isReady: false, isOver: false, isEnded: false } as const;
const READY = { isReady: true, isOver: false, isEnded: false } as const;
const ENDED = { isReady: false, isOver: true, isEnded: true } as const;
/**
 * Properties of each status: `isReady`, the sandbox accepts work now; `isOver`, it accepts no new work from now on;
 * `isEnded`, only its record is left.
 */
export const SANDBOX_STATUS_FACTS = {
  creating: LAUNCHING,
  starting: LAUNCHING,
  ready: READY,
  running: READY,
  idle: READY,
  expiring: { isReady: false, isOver: true, isEnded: false },
  destroyed: ENDED,
  failed: ENDED,
} as const satisfies Record<SandboxStatus, object>;

export const PAUSE_CAUSES = ['request', 'idle', 'expiry', 'host'] as const;
export type PauseCause = (typeof PAUSE_CAUSES)[number];
export const WAKE_CAUSES = ['request', 'operation', 'traffic'] as const;
export type WakeCause = (typeof WAKE_CAUSES)[number];
export const LOST_REASONS = ['asked', 'room', 'host', 'runtime', 'upgrade'] as const;
export type LostReason = (typeof LOST_REASONS)[number];

const LOST_REASON = Type.Optional(
  oneOf(
    LOST_REASONS,
    'Why the memory is lost. `asked`: a client or the policy dropped it. `room`: the host had no room for it. `host`: the ' +
      'host had restarted. `runtime`: it could not be restored. `upgrade`: the host runs a later release.',
  ),
);

export const DESTROYED_REASONS = ['idle_expired', 'platform_cleanup', 'ttl_expired', 'user_killed'] as const;
export type DestroyedReason = (typeof DESTROYED_REASONS)[number];

export const Metadata = Type.Record(Type.String(), Text({ maxLength: LIMITS.metadataValueLength }), {
  maxProperties: LIMITS.metadataKeys,
  propertyNames: { maxLength: LIMITS.metadataKeyLength, pattern: NO_NUL },
  description: `Labels that lists can filter by. Keys and values together have at most ${LIMITS.metadataBytes} bytes of UTF-8.`,
  examples: [{ team: 'billing', run: '42' }],
});
export type Metadata = Static<typeof Metadata>;

/** Query parameters that filter by a label. The label's key may contain any characters. */
export const LABEL_PATTERN = '^metadata\\.';

const CPU =
  'CPU cores. `nproc` and `os.cpu_count()` of Python show them. `os.availableParallelism()` of Node.js shows them where the ' +
  'host has control groups v2 alone; elsewhere, as `sched_getaffinity(2)`, the processors of the host.';
const MEMORY = 'Memory in MiB. There is no swap. Files in `/dev/shm` are part of it and take at most half of it.';

export const Resources = Type.Object(
  {
    cpu: Type.Optional(Type.Number({ minimum: 0.1, maximum: 256, description: CPU })),
    memoryMb: Type.Optional(Type.Integer({ minimum: 128, description: MEMORY })),
    diskMb: Type.Optional(Type.Integer({ minimum: 64, description: 'Size of the disk in MiB.' })),
    pids: Type.Optional(Type.Integer({ minimum: 32, description: 'Number of processes and threads.' })),
  },
  {
    $id: 'Resources',
    additionalProperties: false,
    description: 'Resource limits of the sandbox. The operator sets the default and the maximum of each field.',
    examples: [{ cpu: 1, memoryMb: 512 }],
  },
);
export type Resources = Static<typeof Resources>;

export const Sandbox = Type.Object(
  {
    id: SandboxIdSchema,
    orgId: OrgIdSchema,
    projectId: ProjectIdSchema,
    name: Type.Optional(
      Type.String({ description: 'Its name, which no other sandbox of the project has that has not ended.' }),
    ),
    status: oneOf(
      SANDBOX_STATUSES,
      '`creating`: the request was accepted. `starting`: the instance was launched. `ready`: it accepts work and has not ' +
        'been used yet. `running`: a run or a command is active. `idle`: it was used and nothing is active, or it is ' +
        '`paused`. `expiring`: it is being destroyed. `destroyed`, `failed`: it has ended.',
    ),
    templateId: TemplateIdSchema,
    templateSlug: Type.String({ description: 'Slug of the template, such as `python-node`.' }),
    templateVersion: Type.String({ description: 'Version of the template.' }),
    templateVersionId: TemplateVersionIdSchema,
    ttlMs: Type.Integer({ description: 'Lifetime that was requested last, in milliseconds.' }),
    idleTimeoutMs: Type.Optional(Type.Integer({ description: 'Idle timeout that was requested, in milliseconds.' })),
    expiresAt: timestamp(
      'When the service destroys the sandbox, or pauses it if `pause.onExpiry` is true. A pause stops the lifetime: while ' +
        '`paused` is present, this is the end of the time for which a pause may last. A wake starts a lifetime anew.',
    ),
    pause: SandboxPause,
    paused: Type.Optional(
      Type.Object(
        {
          at: timestamp('When it was paused.'),
          by: oneOf(
            PAUSE_CAUSES,
            '`request`: a client paused it. `idle`: nothing had used it for `pause.afterIdleMs`. `expiry`: its lifetime ended. ' +
              '`host`: its host had restarted.',
          ),
          memory: oneOf(
            ['kept', 'lost'],
            '`kept`: processes, variables, terminals and open files go on after the wake. `lost`: files alone are left; a ' +
              'wake boots the sandbox from them.',
          ),
          place: oneOf(
            ['memory', 'disk'],
            '`memory`: it stands still in the memory of its host. `disk`: its files are kept on the disk of its host.',
          ),
          lostReason: LOST_REASON,
        },
        { description: 'Present only while the sandbox is paused: nothing in it executes.' },
      ),
    ),
    resumed: Type.Optional(
      Type.Object(
        {
          at: timestamp('When its agent answered again.'),
          by: oneOf(
            WAKE_CAUSES,
            '`request`: a client resumed it. `operation`: a request needed its processes or files. `traffic`: a request ' +
              'to one of its previews.',
          ),
          memory: oneOf(
            ['kept', 'lost'],
            '`kept`: everything went on. `lost`: it was booted from its files; contexts are there, without their variables.',
          ),
          lostReason: LOST_REASON,
        },
        { description: 'The last wake from a pause.' },
      ),
    ),
    sessionStartedAt: timestamp('When the session began: at the last wake, or at creation.'),
    metadata: Type.Record(Type.String(), Type.String(), { description: 'Its labels.' }),
    networkPolicy: NetworkPolicy,
    resources: Type.Required(Resources),
    createdAt: Timestamp,
    destroyedAt: Type.Optional(timestamp('When the sandbox was destroyed.')),
    destroyedReason: Type.Optional(
      oneOf(
        DESTROYED_REASONS,
        '`ttl_expired`: its lifetime ended. `idle_expired`: its idle timeout passed, or it was paused for too long. ' +
          '`user_killed`: a client destroyed it. `platform_cleanup`: the host lost the instance, the operator removed it, or its workspace run ended.',
      ),
    ),
    failureReason: Type.Optional(Type.String({ description: 'Explains for people why the sandbox is `failed`.' })),
  },
  { $id: 'Sandbox' },
);
export type Sandbox = Static<typeof Sandbox>;

export const CreateSandboxBody = Type.Object(
  {
    projectId: Type.Optional(
      Text({ description: 'Id of the project. Default: the default project of the organization.' }),
    ),
    template: Type.Optional(Text({ default: DEFAULT_TEMPLATE, description: 'Slug or `tpl_` id of the template.' })),
    templateVersionId: Type.Optional(
      Text({
        description: 'Id of a template version. It pins the exact environment; the default is the newest version.',
      }),
    ),
    ttlMs: Type.Optional(
      Type.Integer({
        minimum: 1,
        ...documented({ maximum: LIMITS.createTtlMaxMs }),
        default: LIMITS.createTtlDefaultMs,
        description: 'Lifetime in milliseconds. A value above the maximum is refused with `sandbox_ttl_exceeded`.',
      }),
    ),
    idleTimeoutMs: Type.Optional(
      Type.Integer({
        minimum: LIMITS.idleMinMs,
        maximum: LIMITS.sessionMaxMs,
        description: 'Destroys the sandbox when it was not used for this many milliseconds. Default: never.',
      }),
    ),
    pause: Type.Optional(PausePolicy),
    metadata: Type.Optional(Metadata),
    env: Type.Optional(environment('Environment variables of all processes in the sandbox.')),
    secrets: Type.Optional(
      Type.Record(
        Type.String(),
        Type.Unsafe<SecretId>({ type: 'string', minLength: 1, maxLength: 100, pattern: NO_NUL }),
        {
          maxProperties: LIMITS.secretsPerSandbox,
          propertyNames: { pattern: ENVIRONMENT_NAME, maxLength: 256 },
          description:
            'Ids of secrets of the same project, by environment variable. Each variable has a placeholder: a random text, ' +
            'made for this sandbox alone. The egress gateway replaces it with the value of the secret in the header fields of ' +
            'requests that go to hosts of the secret over TLS. Everywhere else the placeholder stays as it is. A variable ' +
            'that `env` sets too is refused.',
          examples: [{ PAYMENTS_API_KEY: 'sec_01hx2w5m9k' }],
        },
      ),
    ),
    resources: Type.Optional(Resources),
    networkPolicy: Type.Optional(NetworkPolicy),
    name: Type.Optional(UniqueName),
    startCommand: Type.Optional(StartCommand),
  },
  {
    $id: 'CreateSandbox',
    additionalProperties: false,
    examples: [
      {},
      {
        ttlMs: 600_000,
        metadata: { team: 'billing' },
        env: { LOG_LEVEL: 'debug' },
        resources: { cpu: 1, memoryMb: 512 },
        networkPolicy: { mode: 'allowlist', hosts: ['pypi.org', '*.example.com'] },
      },
    ],
  },
);
export type CreateSandboxBody = Static<typeof CreateSandboxBody>;

export const SetTtlBody = Type.Object(
  {
    ttlMs: Type.Integer({
      minimum: 1,
      ...documented({ maximum: LIMITS.updateTtlMaxMs }),
      description:
        'Lifetime in milliseconds, counted from this request. The new `expiresAt` must be later than the current one and ' +
        'at most 24 hours after `sessionStartedAt`; otherwise the error is `invalid_request` or `sandbox_ttl_exceeded`.',
    }),
  },
  { $id: 'SetTtl', additionalProperties: false, examples: [{ ttlMs: 1_800_000 }] },
);
export type SetTtlBody = Static<typeof SetTtlBody>;
