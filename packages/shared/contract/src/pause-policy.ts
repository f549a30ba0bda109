/** When a sandbox is paused by itself, what wakes it, and how long a pause may last. */
import { type Static, Type } from 'typebox';
import { LIMITS } from './limits.ts';
import { oneOf } from './list.ts';

export const WAKE_MODES = ['explicit', 'requests', 'traffic'] as const;
export type WakeMode = (typeof WAKE_MODES)[number];
export const MEMORY_MODES = ['keep', 'prefer', 'drop'] as const;
export type MemoryMode = (typeof MEMORY_MODES)[number];

/** Describes each mode of the memory in a pause. */
export const MEMORY_MEANING =
  '`keep`: processes, variables, terminals and open files stand still in the memory of the host, and go on. `prefer`: the same ' +
  'while the host has room; the files alone are kept once it has none. `drop`: the files alone are kept; processes end.';

const AFTER_IDLE =
  'Pauses the sandbox when nothing has used it for this many milliseconds, and its processes have used less than 2 % of a ' +
  'core on average, unless the operator set another share. Uses are a run, a command that a request waits for, a request for files, and a byte ' +
  'through a terminal or a preview; an open connection without data is none.';
const ON_EXPIRY = 'Whether the sandbox is paused at `expiresAt`, whatever runs in it, in place of being destroyed.';
const WAKE =
  'What wakes it beside `resume`. `explicit`: nothing; an operation that needs it is refused with `sandbox_paused`. `requests`: ' +
  'an operation that needs its processes or files. `traffic`: also a request to one of its previews.';
const MEMORY = `What pauses by themselves keep. ${MEMORY_MEANING} Not \`drop\` with \`wake: traffic\`.`;
const WAKE_TTL = 'Lifetime after a wake that names none, in milliseconds.';
const RETAIN = 'How long a pause may last, in milliseconds; the sandbox is then destroyed (`idle_expired`).';

const AFTER_IDLE_MS = { minimum: LIMITS.idleMinMs, maximum: LIMITS.sessionMaxMs };
const WAKE_TTL_MS = { minimum: LIMITS.wakeTtlMinMs, maximum: LIMITS.sessionMaxMs };
const RETAIN_MS = { minimum: LIMITS.pauseRetainMinMs };

/** The policy in a request for a sandbox. */
export const PausePolicy = Type.Object(
  {
    afterIdleMs: Type.Optional(
      Type.Integer({
        ...AFTER_IDLE_MS,
        description: `${AFTER_IDLE} Not together with \`idleTimeoutMs\`. Default: never.`,
      }),
    ),
    onExpiry: Type.Optional(Type.Boolean({ default: false, description: ON_EXPIRY })),
    memory: Type.Optional(oneOf(MEMORY_MODES, `${MEMORY} Default: \`prefer\`.`)),
    wake: Type.Optional(oneOf(WAKE_MODES, `${WAKE} Default: \`requests\`.`)),
    wakeTtlMs: Type.Optional(
      Type.Integer({
        ...WAKE_TTL_MS,
        description: `${WAKE_TTL} Default: the \`ttlMs\` of the creation.`,
      }),
    ),
    retainMs: Type.Optional(
      Type.Integer({
        ...RETAIN_MS,
        description: `${RETAIN} Default and maximum: what the operator set, 30 days unless changed.`,
      }),
    ),
  },
  {
    $id: 'PausePolicy',
    additionalProperties: false,
    description: 'When the sandbox is paused by itself, what wakes it, and how long a pause may last.',
    examples: [{ afterIdleMs: 300_000, onExpiry: true, wake: 'traffic' }],
  },
);
export type PausePolicy = Static<typeof PausePolicy>;

/** The fields of a policy to change. */
export const PausePolicyChange = Type.Object(
  {
    afterIdleMs: Type.Optional(
      Type.Unsafe<number | null>({
        type: ['integer', 'null'],
        ...AFTER_IDLE_MS,
        description: `${AFTER_IDLE} Not for a sandbox with \`idleTimeoutMs\`. \`null\`: never.`,
      }),
    ),
    onExpiry: Type.Optional(Type.Boolean({ description: ON_EXPIRY })),
    memory: Type.Optional(oneOf(MEMORY_MODES, MEMORY)),
    wake: Type.Optional(oneOf(WAKE_MODES, WAKE)),
    wakeTtlMs: Type.Optional(Type.Integer({ ...WAKE_TTL_MS, description: WAKE_TTL })),
    retainMs: Type.Optional(Type.Integer({ ...RETAIN_MS, description: `${RETAIN} Holds for the next pause.` })),
  },
  {
    $id: 'PausePolicyChange',
    additionalProperties: false,
    description: 'Changes of the policy; the other fields stay.',
    examples: [{ afterIdleMs: null, onExpiry: true }],
  },
);
export type PausePolicyChange = Static<typeof PausePolicyChange>;

/** The policy of a sandbox, with its defaults. */
export const SandboxPause = Type.Object(
  {
    afterIdleMs: Type.Optional(Type.Integer({ description: `${AFTER_IDLE} Absent: never.` })),
    onExpiry: Type.Boolean({ description: ON_EXPIRY }),
    memory: oneOf(MEMORY_MODES, MEMORY),
    wake: oneOf(WAKE_MODES, WAKE),
    wakeTtlMs: Type.Integer({ description: WAKE_TTL }),
    retainMs: Type.Integer({ description: RETAIN }),
  },
  { description: 'When the sandbox is paused by itself, what wakes it, and how long a pause may last.' },
);
export type SandboxPause = Static<typeof SandboxPause>;
