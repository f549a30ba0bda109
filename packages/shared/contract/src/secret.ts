/** Secrets: values that requests of sandboxes carry to permitted hosts, without being in the sandbox. */
import { type Static, Type } from 'typebox';
import { HOST_ENTRY_PATTERN } from './host-entry.ts';
import { OrgIdSchema, ProjectIdSchema, SecretIdSchema } from './ids.ts';
import { LIMITS } from './limits.ts';
import { documented, Text } from './text.ts';
import { Timestamp, timestamp } from './timestamps.ts';

const hostsDescription =
  'The hosts that receive the value: host names in lower case, IPv4 addresses, or `*.name` for every subdomain of `name` ' +
  'but not `name` itself.';

export const Secret = Type.Object(
  {
    id: SecretIdSchema,
    orgId: OrgIdSchema,
    projectId: ProjectIdSchema,
    name: Type.String({ description: 'Name for people.' }),
    hosts: Type.Array(Type.String(), { description: hostsDescription }),
    createdAt: Timestamp,
    updatedAt: timestamp('When its value or its hosts were last set.'),
    deletedAt: Type.Optional(timestamp('When the secret was deleted.')),
  },
  { $id: 'Secret', description: 'A secret without its value, which no response has.' },
);
export type Secret = Static<typeof Secret>;

const SecretName = Type.String({
  minLength: 1,
  maxLength: LIMITS.secretNameLength,
  pattern: '^[^\\u0000-\\u001f\\u007f]*$',
  description: 'Name for people, without control characters. Several secrets may have the same name.',
});

const SecretValue = Type.String({
  minLength: 1,
  maxLength: LIMITS.secretValueLength,
  pattern: '^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f]*$',
  description: 'The value, without control characters other than tab. It cannot be read again.',
});

const secretHosts = (furtherDescription: string) =>
  Type.Array(Type.String({ maxLength: 255, ...documented({ pattern: HOST_ENTRY_PATTERN }) }), {
    minItems: 1,
    maxItems: LIMITS.networkHosts,
    description: `${hostsDescription} Duplicates are removed.${furtherDescription}`,
  });

export const CreateSecretBody = Type.Object(
  {
    name: SecretName,
    value: SecretValue,
    hosts: secretHosts(''),
    projectId: Type.Optional(
      Text({ description: 'Id of the project. Default: the default project of the organization.' }),
    ),
  },
  {
    $id: 'CreateSecret',
    additionalProperties: false,
    examples: [{ name: 'payments', value: 'the key of the API', hosts: ['api.example.com'] }],
  },
);
export type CreateSecretBody = Static<typeof CreateSecretBody>;

export const UpdateSecretBody = Type.Object(
  {
    value: Type.Optional(SecretValue),
    hosts: Type.Optional(secretHosts(' A host that the secret does not list yet needs `value` in the same request.')),
  },
  {
    $id: 'UpdateSecret',
    additionalProperties: false,
    examples: [
      { hosts: ['api.example.com'] },
      { value: 'the next key of the API', hosts: ['api.example.com', '*.example.org'] },
    ],
  },
);
export type UpdateSecretBody = Static<typeof UpdateSecretBody>;
