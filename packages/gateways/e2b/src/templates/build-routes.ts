import { Readable } from 'node:stream';
import { LIMITS, type TemplateBuild, type TemplateRecipe } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import { type Cloche, isClocheError } from '@cloche/sdk';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { NAME, OPTIONAL_NAME, optionalTextUpTo, textUpTo } from '../bounded-schemas.ts';
import { clientOf, keyOf } from '../control/client-of.ts';
import { DEFAULT_TAG, slugOf, TAGS } from '../control/template-name.ts';
import type { E2bDeps } from '../e2b-deps.ts';
import { newBuildId, readBuildId } from './build-id.ts';
import { recipeOf, type StartBuild } from './build-recipe.ts';
import { findBuild, statusOf } from './build-status.ts';
import { credentialsOf, REGISTRY_ACCOUNT } from './registry-account.ts';
import { TemplateFiles, UPLOAD_BYTES } from './template-files.ts';
import { issueUploadToken, readUploadToken } from './upload-token.ts';

const DESCRIPTION = 'Built by a client of E2B.';
const HASH_LENGTH = 64;
/** Steps of a client, of which many are no step of a recipe: those are counted later. */
const MOST_STEPS = 10 * LIMITS.templateSetupSteps;
/** Arguments of a step: names of variables and their values. */
const MOST_ARGUMENTS = 2 * LIMITS.envEntries;
const optionalFlag = { type: ['boolean', 'null'] };
const line = textUpTo(LIMITS.commandArgumentBytes);
const optionalLine = optionalTextUpTo(LIMITS.commandArgumentBytes);
const REQUEST_SCHEMA = {
  body: {
    type: 'object',
    properties: {
      name: NAME,
      alias: NAME,
      tags: { type: ['array', 'null'], items: NAME, maxItems: 100 },
      cpuCount: { type: ['integer', 'null'], minimum: 1, maximum: 256 },
      memoryMB: { type: ['integer', 'null'], minimum: 128, maximum: 9_999_999 },
      minFreeDiskMb: { type: ['integer', 'null'] },
    },
  },
};
const START_SCHEMA = {
  body: {
    type: 'object',
    properties: {
      fromImage: OPTIONAL_NAME,
      fromTemplate: OPTIONAL_NAME,
      fromImageRegistry: REGISTRY_ACCOUNT,
      startCmd: optionalLine,
      readyCmd: optionalLine,
      force: optionalFlag,
      steps: {
        type: ['array', 'null'],
        maxItems: MOST_STEPS,
        items: {
          type: 'object',
          required: ['type'],
          properties: {
            type: NAME,
            args: { type: ['array', 'null'], items: line, maxItems: MOST_ARGUMENTS },
            filesHash: optionalTextUpTo(HASH_LENGTH),
            force: optionalFlag,
          },
        },
      },
    },
  },
};
const HASH_SCHEMA = {
  params: { type: 'object', properties: { hash: { ...textUpTo(HASH_LENGTH), pattern: '^[0-9a-f]{64}$' } } },
};
const STATUS_SCHEMA = {
  // Values of a query are text.
  querystring: {
    type: 'object',
    properties: { logsOffset: { type: 'string', pattern: '^[0-9]{1,9}$', maxLength: 9, default: '0' } },
  },
};

interface RequestBody {
  readonly name?: string;
  readonly alias?: string;
  readonly tags?: readonly string[] | null;
  readonly cpuCount?: number | null;
  readonly memoryMB?: number | null;
  readonly minFreeDiskMb?: number | null;
}
interface OfTemplate {
  templateID: string;
}
interface OfBuild {
  Params: OfTemplate & { buildID: string };
}

/** Registers builds of templates: the request of one, the upload of its files, its start, and its state. */
export async function buildRoutes(app: FastifyInstance, deps: E2bDeps): Promise<void> {
  const files = new TemplateFiles(deps.apiUrl);
  app.post<{ Body: RequestBody }>('/v3/templates', { schema: REQUEST_SCHEMA }, async (request, reply) => {
    const { name, alias = '', cpuCount, memoryMB, minFreeDiskMb } = request.body;
    const slug = slugOf(name ?? alias);
    if (request.body.tags?.some((tag) => tag !== DEFAULT_TAG)) throw new GatewayError(501, TAGS);
    if (minFreeDiskMb) throw new GatewayError(501, 'Cloche does not have minFreeDiskMb yet; leave it out.');
    await requireOwn(clientOf(request, deps), slug);
    const resources = { ...(cpuCount && { cpu: cpuCount }), ...(memoryMB && { memoryMb: memoryMB }) };
    const ids = { templateID: slug, buildID: newBuildId(resources) };
    return reply.code(202).send({ ...ids, public: false, names: [slug], aliases: [slug], tags: [DEFAULT_TAG] });
  });
  app.get<{ Params: OfTemplate & { hash: string } }>(
    '/templates/:templateID/files/:hash',
    { schema: HASH_SCHEMA },
    async (request, reply) => {
      const { hash } = request.params;
      const token = issueUploadToken({ apiKey: keyOf(request), hash }, deps.seal);
      const url = `${deps.publicUrl ?? `${request.protocol}://${request.host}`}/e2b/template-files?token=${token}`;
      const found = await files.find(clientOf(request, deps), hash);
      return reply.code(201).send({ present: found !== undefined, url });
    },
  );
  await app.register(async (scope) => uploadRoute(scope, files, deps));
  app.post<OfBuild & { Body: StartBuild }>(
    '/v2/templates/:templateID/builds/:buildID',
    { schema: START_SCHEMA },
    async (request, reply) => {
      const cloche = clientOf(request, deps);
      const build = readBuildId(request.params.buildID);
      const { fromTemplate } = request.body;
      // In `/v1`, a name that no template has is an image.
      if (fromTemplate) await cloche.templates.get(slugOf(fromTemplate));
      const recipe = await recipeOf(request.body, build, {
        findFiles: async (hash) => {
          const found = await files.find(cloche, hash);
          if (found !== undefined) return found;
          throw new GatewayError(400, `The files ${hash} of a COPY have not been uploaded.`);
        },
        storeAccount: (image, account) => credentialsOf(cloche, image, account),
      });
      await start(cloche, slugOf(request.params.templateID), recipe, build.name);
      return reply.code(202).send();
    },
  );
  app.get<OfBuild & { Querystring: { logsOffset: string } }>(
    '/templates/:templateID/builds/:buildID/status',
    { schema: STATUS_SCHEMA },
    async (request) => {
      const cloche = clientOf(request, deps);
      const { templateID, buildID } = request.params;
      const build = await findBuild(cloche, slugOf(templateID), buildID);
      return statusOf(cloche, build, buildID, Number(request.query.logsOffset));
    },
  );
}

/** Registers the URL to which a client uploads files. The token in the URL is the only authentication. */
async function uploadRoute(app: FastifyInstance, files: TemplateFiles, deps: E2bDeps): Promise<void> {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
  app.put<{ Querystring: { token?: string }; Body?: Readable }>('/template-files', async (request, reply) => {
    const upload = readUploadToken(String(request.query.token), deps.seal);
    const sent = { sizeBytes: sizeOf(request), fields: request.headers };
    await files.store(upload, request.body ?? Readable.from([]), sent);
    return reply.code(200).send();
  });
}

function sizeOf({ headers }: FastifyRequest): number {
  const size = headers['content-length'];
  if (size === undefined) throw new GatewayError(411, 'The upload needs a Content-Length.');
  if (Number(size) <= UPLOAD_BYTES) return Number(size);
  throw new GatewayError(413, `The files of one COPY have at most ${UPLOAD_BYTES} bytes, packed.`);
}

/** @throws GatewayError 403 for a curated template, which only the operator can build */
async function requireOwn({ templates }: Cloche, slug: string): Promise<void> {
  const found = (await templates.list()).find((each) => each.slug === slug || each.id === slug);
  if (!found || found.orgId !== undefined) return;
  throw new GatewayError(403, `The template ${slug} is one of Cloche's own; choose another name.`);
}

/** Starts a build of the template, which is created first if it does not exist. */
async function start(
  { templates }: Cloche,
  slug: string,
  recipe: TemplateRecipe,
  name: string,
): Promise<TemplateBuild> {
  const idempotencyKey = `e2b-build-${name}`;
  try {
    return await templates.build(slug, recipe, { idempotencyKey });
  } catch (error) {
    if (!isClocheError(error, 'not_found')) throw error;
    return (await templates.create({ slug, description: DESCRIPTION, ...recipe }, { idempotencyKey })).build;
  }
}
