import { type Static, Type } from 'typebox';

/** Quotas that a project can set, with what each limits. */
export const QUOTAS = {
  liveSandboxes: 'Sandboxes that have not ended.',
  liveCpu: 'CPU cores of the sandboxes that have not ended, together.',
  liveMemoryMb: 'Memory of the sandboxes that have not ended, together, in MiB.',
  sandboxesPerMinute: 'Sandboxes created in a minute.',
  requestsPerMinute: 'Requests in a minute.',
  artifactBytes: 'Size of all artifacts in bytes. Equal contents count once.',
  concurrentWorkspaceRuns: 'Workspace runs that run at a time; further runs wait.',
  templateBytes: 'Size of all templates in bytes.',
  previews: 'Open previews.',
  secrets: 'Secrets.',
  webhooks: 'Webhooks.',
} as const;
export type QuotaName = keyof typeof QUOTAS;

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
