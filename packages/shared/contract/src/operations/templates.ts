import { Type } from 'typebox';
import { LIMITS } from '../limits.ts';
import { listOf, PAGE } from '../list.ts';
import type { Operation } from '../operation.ts';
import { CreateTemplateBody, Template, TemplateVersion, UpdateTemplateBody } from '../template.ts';
import { TemplateBuild } from '../template-build.ts';
import { documented } from '../text.ts';

const tag = 'Templates';
const collection = '/v1/templates';
export const TemplateParams = Type.Object({
  template: Type.String({ ...documented({ minLength: 1 }), description: 'Slug or `tpl_` id of the template.' }),
});
const TemplateResponse = Type.Object({ template: Template });

export const createTemplate = {
  id: 'createTemplate',
  method: 'POST',
  path: collection,
  tag,
  summary: 'Create a template',
  description:
    'Creates a template of the organization, and the first build of its recipe. The template can be used when the build ' +
    'has succeeded. A slug that a template of the organization or a curated one has is a `conflict`. An organization has ' +
    `at most ${LIMITS.templatesPerOrganization} templates of its own. Keys bound to projects create none.`,
  scope: 'template:write',
  idempotency: 'optional',
  body: CreateTemplateBody,
  response: {
    status: 201,
    schema: Type.Object({ template: Template, build: TemplateBuild }),
    description: 'The new template and its build.',
  },
  errors: ['conflict', 'quota_exceeded'],
} as const satisfies Operation;

export const listTemplates = {
  id: 'listTemplates',
  method: 'GET',
  path: collection,
  tag,
  summary: 'List templates',
  description: "The curated templates and the organization's own, by slug.",
  scope: 'template:read',
  idempotency: 'none',
  query: Type.Object(PAGE, { additionalProperties: false }),
  response: { status: 200, schema: listOf(Template), description: 'All templates.' },
  errors: [],
} as const satisfies Operation;

export const getTemplate = {
  id: 'getTemplate',
  method: 'GET',
  path: `${collection}/{template}`,
  tag,
  summary: 'Get a template',
  scope: 'template:read',
  idempotency: 'none',
  params: TemplateParams,
  response: { status: 200, schema: TemplateResponse, description: 'The template.' },
  errors: [],
} as const satisfies Operation;

export const updateTemplate = {
  id: 'updateTemplate',
  method: 'PATCH',
  path: `${collection}/{template}`,
  tag,
  summary: 'Change a template',
  description:
    'Sets the fields that the body has. `defaultVersionId` goes back to an earlier version: sandboxes that are created after ' +
    'the response have it. Curated templates cannot be changed (`forbidden`), nor can keys bound to projects change any.',
  scope: 'template:write',
  idempotency: 'none',
  params: TemplateParams,
  body: UpdateTemplateBody,
  response: { status: 200, schema: TemplateResponse, description: 'The changed template.' },
  errors: [],
} as const satisfies Operation;

export const deleteTemplate = {
  id: 'deleteTemplate',
  method: 'DELETE',
  path: `${collection}/{template}`,
  tag,
  summary: 'Delete a template',
  description:
    'No sandbox can be created from it afterwards; sandboxes that exist keep running. It is a `conflict` while other ' +
    'templates are made from one of its versions (`details.templates`) or a build of it is unfinished. Deleting it again by ' +
    'its id returns it again. Curated templates cannot be deleted (`forbidden`).',
  scope: 'template:write',
  idempotency: 'none',
  params: TemplateParams,
  response: { status: 200, schema: TemplateResponse, description: 'The deleted template.' },
  errors: ['conflict'],
} as const satisfies Operation;

export const listTemplateVersions = {
  id: 'listTemplateVersions',
  method: 'GET',
  path: `${collection}/{template}/versions`,
  tag,
  summary: 'List the versions of a template',
  scope: 'template:read',
  idempotency: 'none',
  params: TemplateParams,
  query: Type.Object(PAGE, { additionalProperties: false }),
  response: { status: 200, schema: listOf(TemplateVersion), description: 'All versions, newest first.' },
  errors: [],
} as const satisfies Operation;
