import { type Static, Type } from 'typebox';
import { PausePolicyChange } from './pause-policy.ts';
import { CreateSandboxBody, Metadata } from './sandbox.ts';
import { NewName } from './sandbox-name.ts';

const { name: _, ...creation } = CreateSandboxBody.properties;

export const GetOrCreateSandboxBody = Type.Object(creation, {
  $id: 'GetOrCreateSandbox',
  additionalProperties: false,
  examples: [{}, { template: 'python-node', networkPolicy: { mode: 'deny-all' } }],
});
export type GetOrCreateSandboxBody = Static<typeof GetOrCreateSandboxBody>;

export const UpdateSandboxBody = Type.Object(
  {
    name: Type.Optional(NewName),
    metadata: Type.Optional(Metadata),
    pause: Type.Optional(PausePolicyChange),
  },
  {
    $id: 'UpdateSandbox',
    additionalProperties: false,
    examples: [{ name: 'web-app' }, { name: null, metadata: { team: 'billing' }, pause: { onExpiry: true } }],
  },
);
export type UpdateSandboxBody = Static<typeof UpdateSandboxBody>;
