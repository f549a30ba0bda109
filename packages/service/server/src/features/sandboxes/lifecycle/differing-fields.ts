import { isDeepStrictEqual } from 'node:util';
import type { GetOrCreateSandboxBody, NetworkPolicy } from '@cloche/contract';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';

type Comparable = {
  readonly [Field in 'template' | 'templateVersionId' | 'resources' | 'networkPolicy' | 'secrets' | 'pause']-?: (
    given: NonNullable<GetOrCreateSandboxBody[Field]>,
    record: SandboxRecord,
  ) => boolean;
};

/** Whether a sandbox is as a field of the body asks, for each field that is compared. */
const IS_AS_ASKED: Comparable = {
  template: (given, { templateSlug, templateId }) => given === templateSlug || given === templateId,
  templateVersionId: (given, record) => given === record.templateVersionId,
  resources: (given, { resources }) => isDeepStrictEqual({ ...resources, ...given }, resources),
  networkPolicy: (given, { networkPolicy }) => isDeepStrictEqual(unordered(given), unordered(networkPolicy)),
  pause: (given, { pause }) => isDeepStrictEqual({ ...pause, ...given }, pause),
  secrets: (given, record) => isDeepStrictEqual({ ...given }, secretsOf(record)),
};

/** Returns the fields of the body that ask for another sandbox than `record`. */
export function differingFields(record: SandboxRecord, body: GetOrCreateSandboxBody): string[] {
  return (Object.keys(IS_AS_ASKED) as (keyof Comparable)[]).filter((field) => {
    const given = body[field];
    // Sound: `given` is the field that the function compares.
    return (
      given !== undefined && !(IS_AS_ASKED[field] as (given: unknown, record: SandboxRecord) => boolean)(given, record)
    );
  });
}

/** The order of hosts has no meaning. */
function unordered({ mode, hosts }: NetworkPolicy): { mode: string; hosts: readonly string[] } {
  return { mode, hosts: [...new Set(hosts)].sort() };
}

/** Returns the ids of the secrets by environment variable, as a creation gives them. */
function secretsOf({ env, secrets = {} }: SandboxRecord): Record<string, string> {
  const variables = Object.entries(env).filter(([, value]) => Object.hasOwn(secrets, value));
  return Object.fromEntries(variables.map(([variable, placeholder]) => [variable, secrets[placeholder] as string]));
}
