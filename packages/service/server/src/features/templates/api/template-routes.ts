import { operations } from '@cloche/contract';
import { inMemory } from '../../../platform/db/list.ts';
import { listRoute } from '../../../platform/http/list-route.ts';
import { type Route, route } from '../../../platform/http/route.ts';
import { toOwnTemplate } from '../../template-catalogue/custom/custom-template.ts';
import { toBuild } from '../builds/template-build.ts';
import type { TemplateService } from './template-service.ts';

export function templateRoutes(service: TemplateService): Route[] {
  return [
    route(operations.createTemplate, async ({ call, body }) => {
      const { template, build } = await service.create(call, body);
      return { template: toOwnTemplate(template, undefined), build: toBuild(build) };
    }),
    listRoute(operations.listTemplates, async ({ call }) =>
      inMemory(await service.list(call), ({ slug, id }) => [slug, id], {
        follows: (template, [slug]) => template.slug > slug,
        show: (template) => template,
      }),
    ),
    route(operations.getTemplate, async ({ call, params }) => ({
      template: await service.get(call, params.template),
    })),
    route(operations.updateTemplate, async ({ call, params, body }) => ({
      template: await service.update(call, params.template, body),
    })),
    route(operations.deleteTemplate, async ({ call, params }) => ({
      template: await service.delete(call, params.template),
    })),
    listRoute(operations.listTemplateVersions, async ({ call, params }) =>
      inMemory(await service.versions(call, params.template), ({ createdAt, id }) => [createdAt, id], {
        follows: (version, [createdAt]) => version.createdAt < createdAt,
        show: (version) => version,
      }),
    ),
  ];
}
