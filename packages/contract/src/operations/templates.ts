import { Type } from 'typebox';
import { listOf } from '../list.ts';
import type { Operation } from '../operation.ts';
import { Template, TemplateVersion } from '../template.ts';
import { documented } from '../text.ts';

const common = { method: 'GET', tag: 'Templates', scope: 'template:read', idempotency: 'none', errors: [] } as const;
const TemplateParams = Type.Object({
  template: Type.String({ ...documented({ minLength: 1 }), description: 'Slug or `tpl_` id of the template.' }),
});

export const listTemplates = {
  ...common,
  id: 'listTemplates',
  path: '/v1/templates',
  summary: 'List templates',
  response: { status: 200, schema: listOf(Template), description: 'All templates.' },
} as const satisfies Operation;

export const getTemplate = {
  ...common,
  id: 'getTemplate',
  path: '/v1/templates/{template}',
  summary: 'Get a template',
  params: TemplateParams,
  response: { status: 200, schema: Type.Object({ template: Template }), description: 'The template.' },
} as const satisfies Operation;

export const listTemplateVersions = {
  ...common,
  id: 'listTemplateVersions',
  path: '/v1/templates/{template}/versions',
  summary: 'List the versions of a template',
  params: TemplateParams,
  response: { status: 200, schema: listOf(TemplateVersion), description: 'All versions, newest first.' },
} as const satisfies Operation;
