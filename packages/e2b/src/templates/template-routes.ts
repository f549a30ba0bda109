import type { Template } from '@cloche/contract';
import type { FastifyInstance } from 'fastify';
import { clientOf } from '../control/client-of.ts';
import { slugOf } from '../control/template-name.ts';
import type { E2bDeps } from '../e2b-deps.ts';

/** Registers what the clients ask about templates. */
export async function templateRoutes(app: FastifyInstance, deps: E2bDeps): Promise<void> {
  app.get('/templates', async (request) => (await clientOf(request, deps).templates.list()).map(listed));
  app.get<{ Params: { alias: string } }>('/templates/aliases/:alias', async (request) => {
    const { slug, orgId } = await clientOf(request, deps).templates.get(slugOf(request.params.alias));
    return { templateID: slug, public: orgId === undefined };
  });
  app.delete<{ Params: { templateID: string } }>('/templates/:templateID', async (request, reply) => {
    await clientOf(request, deps).templates.delete(slugOf(request.params.templateID));
    return reply.code(204).send();
  });
}

function listed({ slug, orgId, createdAt }: Template) {
  return { templateID: slug, aliases: [slug], names: [slug], public: orgId === undefined, createdAt };
}
