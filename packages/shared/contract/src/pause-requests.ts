/** The bodies of the requests that pause and resume sandboxes. */
import { type Static, Type } from 'typebox';
import { LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { MEMORY_MEANING, MEMORY_MODES } from './pause-policy.ts';
import { documented } from './text.ts';

export const PauseSandboxBody = Type.Object(
  {
    memory: Type.Optional(
      oneOf(
        MEMORY_MODES,
        `${MEMORY_MEANING} The memory of a paused sandbox can be dropped later; lost memory does not come back. Default: \`keep\`.`,
      ),
    ),
    force: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Whether code runs and waited commands in progress are ended first. Without it, they are a `conflict` with ' +
          '`details.running`.',
      }),
    ),
    retainMs: Type.Optional(
      Type.Integer({
        minimum: LIMITS.pauseRetainMinMs,
        description:
          'How long this pause may last, in milliseconds; the sandbox is then destroyed (`idle_expired`). Default: ' +
          '`pause.retainMs`. Maximum: what the operator set, 30 days unless changed.',
      }),
    ),
  },
  { $id: 'PauseSandbox', additionalProperties: false, examples: [{}, { force: true, retainMs: 86_400_000 }] },
);
export type PauseSandboxBody = Static<typeof PauseSandboxBody>;

export const ResumeSandboxBody = Type.Object(
  {
    memory: Type.Optional(
      oneOf(
        ['restore', 'drop'],
        '`restore`: what was kept goes on. `drop`: the sandbox is booted from its files, for example because what runs in it ' +
          'hangs. Changes nothing for one that is not paused. Default: `restore`.',
      ),
    ),
    ttlMs: Type.Optional(
      Type.Integer({
        minimum: 1,
        ...documented({ maximum: LIMITS.sessionMaxMs }),
        description:
          'Lifetime in milliseconds, counted from the wake. Default: `pause.wakeTtlMs`. If the sandbox is not ' +
          'paused, an expiry that is later than the current one is set, which needs `sandbox:extend`; an earlier one ' +
          'changes nothing.',
      }),
    ),
  },
  { $id: 'ResumeSandbox', additionalProperties: false, examples: [{}, { ttlMs: 1_800_000 }] },
);
export type ResumeSandboxBody = Static<typeof ResumeSandboxBody>;
