import { Type } from 'typebox';
import { ProjectIdSchema } from '../ids.ts';
import { LIMITS } from '../limits.ts';
import { listOf, oneOf, PAGE } from '../list.ts';
import type { Operation } from '../operation.ts';
import { CreateProjectBody, Project, UpdateProjectBody } from '../project.ts';

const tag = 'Projects';
const ProjectParams = Type.Object({ projectId: ProjectIdSchema });
const ProjectResponse = Type.Object({ project: Project });

export const createProject = {
  id: 'createProject',
  method: 'POST',
  path: '/v1/projects',
  tag,
  summary: 'Create a project',
  description:
    'A name that another project of the organization has is a `conflict`. An organization has at most ' +
    `${LIMITS.projectsPerOrganization} projects that are not deleted. Keys bound to projects create none.`,
  scope: 'project:write',
  idempotency: 'optional',
  body: CreateProjectBody,
  response: { status: 201, schema: ProjectResponse, description: 'The new project.' },
  errors: ['conflict', 'quota_exceeded'],
} as const satisfies Operation;

export const listProjects = {
  id: 'listProjects',
  method: 'GET',
  path: '/v1/projects',
  tag,
  summary: 'List projects',
  description:
    'Newest first. A key that is bound to projects sees only these. Deleted projects are listed only with `include=deleted`.',
  scope: 'project:read',
  idempotency: 'none',
  query: Type.Object(
    {
      include: Type.Optional(oneOf(['deleted'], '`deleted`: also list deleted projects.')),
      ...PAGE,
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: listOf(Project), description: 'All projects that the key can see.' },
  errors: [],
} as const satisfies Operation;

export const getProject = {
  id: 'getProject',
  method: 'GET',
  path: '/v1/projects/{projectId}',
  tag,
  summary: 'Get a project',
  description: 'Also returns a deleted project.',
  scope: 'project:read',
  idempotency: 'none',
  params: ProjectParams,
  response: { status: 200, schema: ProjectResponse, description: 'The project.' },
  errors: [],
} as const satisfies Operation;

export const updateProject = {
  id: 'updateProject',
  method: 'PATCH',
  path: '/v1/projects/{projectId}',
  tag,
  summary: 'Change a project',
  description:
    'Changes only the given fields. `metadata` and `quotas` are replaced as a whole. A deleted project is `not_found`.',
  scope: 'project:write',
  idempotency: 'none',
  params: ProjectParams,
  body: UpdateProjectBody,
  response: { status: 200, schema: ProjectResponse, description: 'The changed project.' },
  errors: ['conflict'],
} as const satisfies Operation;

export const deleteProject = {
  id: 'deleteProject',
  method: 'DELETE',
  path: '/v1/projects/{projectId}',
  tag,
  summary: 'Delete a project',
  description:
    'A project with live sandboxes or unfinished workspace runs is a `conflict`, and so is the default project. Nothing new ' +
    'can be created in a deleted project (`not_found`); its artifacts stay readable. Deleting a deleted project returns it ' +
    'again.',
  scope: 'project:write',
  idempotency: 'none',
  params: ProjectParams,
  response: { status: 200, schema: ProjectResponse, description: 'The deleted project.' },
  errors: ['conflict'],
} as const satisfies Operation;
