import { Type } from 'typebox';
import { TemplateBuildIdSchema } from '../ids.ts';
import { LIMITS } from '../limits.ts';
import { listOf, PAGE } from '../list.ts';
import type { Operation } from '../operation.ts';
import { TemplateBuild } from '../template-build.ts';
import { ImageSettings, RegistryImage, TemplateRecipe } from '../template-recipe.ts';
import { TemplateParams } from './templates.ts';

const tag = 'Templates';
const collection = '/v1/templates/{template}/builds';
const item = `${collection}/{buildId}`;
export const BuildParams = Type.Object({ ...TemplateParams.properties, buildId: TemplateBuildIdSchema });
const BuildResponse = Type.Object({ build: TemplateBuild });

export const createTemplateBuild = {
  id: 'createTemplateBuild',
  method: 'POST',
  path: collection,
  tag,
  summary: 'Build a template',
  description:
    'Builds a version from a recipe, in a sandbox with at most ' +
    `${LIMITS.templateBuildMs / 60_000} minutes. Steps that an earlier build of the organization has run, with the same ` +
    'steps before, are not run again; a recipe whose version exists gives that version. The builds of an organization ' +
    `start in order, and at most ${LIMITS.templateBuildsAtOnce} run at a time; at most ${LIMITS.templateBuildsQueued} may be ` +
    'unfinished. Curated templates cannot be built (`forbidden`).',
  scope: 'template:write',
  idempotency: 'optional',
  params: TemplateParams,
  body: TemplateRecipe,
  response: { status: 201, schema: BuildResponse, description: 'The new build.' },
  errors: ['quota_exceeded'],
} as const satisfies Operation;

export const inspectImage = {
  id: 'inspectImage',
  method: 'POST',
  path: '/v1/images/inspect',
  tag,
  summary: 'Read the settings of an image',
  description:
    'Reads the digest and the settings of an image from its registry, without its layers. This takes a sandbox of the ' +
    'default project, which is destroyed before the response. A refusal of the registry is `invalid_request`.',
  scope: 'template:write',
  idempotency: 'none',
  body: RegistryImage,
  response: { status: 200, schema: Type.Object({ image: ImageSettings }), description: 'The settings.' },
  errors: ['quota_exceeded'],
} as const satisfies Operation;

export const listTemplateBuilds = {
  id: 'listTemplateBuilds',
  method: 'GET',
  path: collection,
  tag,
  summary: 'List the builds of a template',
  description: `Newest first; without \`limit\`, at most ${LIMITS.templateBuildsListed}. Curated templates have none.`,
  scope: 'template:read',
  idempotency: 'none',
  params: TemplateParams,
  query: Type.Object(PAGE, { additionalProperties: false }),
  response: { status: 200, schema: listOf(TemplateBuild), description: 'The builds.' },
  errors: [],
} as const satisfies Operation;

export const getTemplateBuild = {
  id: 'getTemplateBuild',
  method: 'GET',
  path: item,
  tag,
  summary: 'Get a build',
  description: 'With `waitMs`, the response is sent when the build has ended or that time has passed.',
  scope: 'template:read',
  idempotency: 'none',
  params: BuildParams,
  query: Type.Object(
    {
      waitMs: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: LIMITS.waitMaxMs,
          default: 0,
          description: 'How long to wait for the end of the build, in milliseconds.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: BuildResponse, description: 'The build.' },
  errors: [],
} as const satisfies Operation;

export const cancelTemplateBuild = {
  id: 'cancelTemplateBuild',
  method: 'POST',
  path: `${item}/cancel`,
  tag,
  summary: 'Cancel a build',
  description: 'Ends the build and its sandbox. A build that has ended is returned unchanged.',
  scope: 'template:write',
  idempotency: 'none',
  params: BuildParams,
  response: { status: 200, schema: BuildResponse, description: 'The build.' },
  errors: [],
} as const satisfies Operation;
