import { type Static, Type } from 'typebox';
import { OrgIdSchema, ProjectIdSchema } from './ids.ts';
import { LIMITS } from './limits.ts';
import { ProjectQuotas } from './quota.ts';
import { Metadata } from './sandbox.ts';
import { Timestamp, timestamp } from './timestamps.ts';

export const Project = Type.Object(
  {
    id: ProjectIdSchema,
    orgId: OrgIdSchema,
    name: Type.String({ description: 'Unique among the projects of the organization, in upper or lower case.' }),
    isDefault: Type.Boolean({
      description: 'Whether sandboxes are created in this project if the request names none. It cannot be deleted.',
    }),
    metadata: Type.Record(Type.String(), Type.String(), { description: 'The labels of the project.' }),
    quotas: ProjectQuotas,
    createdAt: Timestamp,
    updatedAt: timestamp('When its name, labels or quotas were last set.'),
    deletedAt: Type.Optional(timestamp('When the project was deleted.')),
  },
  { $id: 'Project' },
);
export type Project = Static<typeof Project>;

const ProjectName = Type.String({
  minLength: 1,
  maxLength: LIMITS.projectNameLength,
  pattern: '^[^\\u0000-\\u001f\\u007f]*$',
  description:
    'Name without control characters. It must be unique in the organization, whatever its case; the name of a deleted ' +
    'project is free again.',
});

export const CreateProjectBody = Type.Object(
  { name: ProjectName, metadata: Type.Optional(Metadata), quotas: Type.Optional(ProjectQuotas) },
  {
    $id: 'CreateProject',
    additionalProperties: false,
    examples: [{ name: 'billing', metadata: { team: 'payments' }, quotas: { liveSandboxes: 20 } }],
  },
);
export type CreateProjectBody = Static<typeof CreateProjectBody>;

export const UpdateProjectBody = Type.Object(
  { name: Type.Optional(ProjectName), metadata: Type.Optional(Metadata), quotas: Type.Optional(ProjectQuotas) },
  {
    $id: 'UpdateProject',
    additionalProperties: false,
    examples: [{ name: 'payments' }, { quotas: { liveSandboxes: null } }],
  },
);
export type UpdateProjectBody = Static<typeof UpdateProjectBody>;
