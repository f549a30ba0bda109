import { operations } from '@cloche/contract';
import { inMemory } from '../../../platform/db/list.ts';
import { listRoute } from '../../../platform/http/list-route.ts';
import { type Route, route } from '../../../platform/http/route.ts';
import { toOwnTemplate } from '../../template-catalogue/custom/custom-template.ts';
import { toBuild } from '../builds/template-build.ts';
import type { TemplateService } from './template-service.ts';

export function templateRoutes(service: TemplateService): Route[] {
  return [
    route(operations.createTemplate, async (request) => {
      const { template, build } = await service.create(request);
      return { template: toOwnTemplate(template, undefined), build: toBuild(build) };
    }),
    listRoute(operations.listTemplates, async ({ credential }) =>
      inMemory(await service.list(credential), ({ slug, id }) => [slug, id], {
        follows: (template, [slug]) => template.slug > slug,
        show: (template) => template,
      }),
    ),
    route(operations.getTemplate, async ({ credential, params }) => ({
      template: await service.get(credential, params.template),
    })),
    route(operations.updateTemplate, async ({ credential, params, body, audit }) => ({
      template: await service.update(credential, params.template, body, audit),
    })),
    route(operations.deleteTemplate, async ({ credential, params, audit }) => ({
      template: await service.delete(credential, params.template, audit),
    })),
    listRoute(operations.listTemplateVersions, async ({ credential, params }) =>
      inMemory(await service.versions(credential, params.template), ({ createdAt, id }) => [createdAt, id], {
        follows: (version, [createdAt]) => version.createdAt < createdAt,
        show: (version) => version,
      }),
    ),
  ];
}
