import { type Static, Type } from 'typebox';
import { ProjectIdSchema } from './ids.ts';
import { oneOf } from './list.ts';

/** Quotas of organizations and of projects, with what each limits. */
export const QUOTAS = {
  liveSandboxes: 'Sandboxes that have not ended and are not paused.',
  liveCpu: 'CPU cores of the sandboxes that have not ended and are not paused, together.',
  liveMemoryMb: 'Memory of the sandboxes that have not ended and are not paused, together, in MiB.',
  pausedSandboxes: 'Sandboxes that are paused, or that `pause.onExpiry` pauses at their expiry.',
  pausedMemoryMb: 'Memory of the paused sandboxes, together, in MiB.',
  sandboxesPerMinute: 'Sandboxes created in a minute.',
  wakesPerMinute: 'Wakes of paused sandboxes in a minute.',
  requestsPerMinute: 'Requests in a minute.',
  artifactBytes: 'Size of all artifacts in bytes. Equal contents count once.',
  concurrentWorkspaceRuns: 'Workspace runs that run at a time; further runs wait.',
  templateBytes: 'Size of all templates in bytes.',
  previews: 'Open previews.',
  secrets: 'Secrets.',
  webhooks: 'Webhooks.',
} as const;
export type QuotaName = keyof typeof QUOTAS;
export const QUOTA_NAMES = Object.keys(QUOTAS) as QuotaName[];

const Limit = (description: string) =>
  Type.Optional(
    Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: `${description} \`null\`: no limit of the project.`,
    }),
  );

export const ProjectQuotas = Type.Object(
  Object.fromEntries(Object.entries(QUOTAS).map(([name, description]) => [name, Limit(description)])) as {
    [Name in QuotaName]: ReturnType<typeof Limit>;
  },
  {
    $id: 'ProjectQuotas',
    additionalProperties: false,
    description: 'Limits of the project. A quota that is left out has no limit of the project.',
    examples: [{ liveSandboxes: 20, artifactBytes: 1_000_000_000 }],
  },
);
export type ProjectQuotas = Static<typeof ProjectQuotas>;

export const QuotaUse = Type.Object(
  {
    quota: oneOf(QUOTA_NAMES, 'Name of the quota, as in `details.quota` of its refusals.'),
    limit: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      minimum: 0,
      description: 'Limit of the organization, or of the project that `project` names. `null`: no limit.',
    }),
    used: Type.Number({ minimum: 0, description: 'What counts towards the limit now.' }),
    project: Type.Optional(ProjectIdSchema),
  },
  {
    $id: 'QuotaUse',
    description: 'A quota with its limit and its use. Without `project`, both are those of the whole organization.',
    examples: [{ quota: 'liveSandboxes', limit: 50, used: 12 }],
  },
);
export type QuotaUse = Static<typeof QuotaUse>;
