import type { Template } from '@cloche/contract';
import type { FastifyInstance } from 'fastify';
import { clientOf } from '../control/client-of.ts';
import { ENVD_VERSION } from '../control/e2b-sandbox.ts';
import { namesOf, slugOf } from '../control/template-name.ts';
import type { E2bDeps } from '../e2b-deps.ts';

/** Resources of a sandbox whose creation names none. An operator may set others. */
const LIST_MEMORY_MB = 1024;
const LIST_DISK_MB = 2048;

/** Registers what the clients ask about templates. */
export async function templateRoutes(app: FastifyInstance, deps: E2bDeps): Promise<void> {
  for (const path of ['/templates', '/v2/templates']) {
    app.get(path, async (request) => (await clientOf(request, deps).templates.list()).map(listed));
  }
  app.get<{ Params: { alias: string } }>('/templates/aliases/:alias', async (request) => {
    const { slug, orgId } = await clientOf(request, deps).templates.get(slugOf(request.params.alias));
    return { templateID: slug, public: orgId === undefined };
  });
  app.delete<{ Params: { templateID: string } }>('/templates/:templateID', async (request, reply) => {
    await clientOf(request, deps).templates.delete(slugOf(request.params.templateID));
    return reply.code(204).send();
  });
}

/** Values that Cloche does not keep are those of a template that nothing was started of. */
function listed({ slug, orgId, createdAt, latestVersionId, defaultVersionId }: Template) {
  const names = namesOf(slug);
  return {
    templateID: slug,
    buildID: defaultVersionId ?? latestVersionId ?? '',
    aliases: names,
    names,
    public: orgId === undefined,
    cpuCount: 1,
    memoryMB: LIST_MEMORY_MB,
    diskSizeMB: LIST_DISK_MB,
    createdAt,
    updatedAt: createdAt,
    createdBy: null,
    lastSpawnedAt: null,
    spawnCount: 0,
    buildCount: latestVersionId === undefined ? 0 : 1,
    envdVersion: ENVD_VERSION,
    buildStatus: latestVersionId === undefined ? 'building' : 'ready',
  };
}
