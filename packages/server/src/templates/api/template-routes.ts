import { operations } from '@cloche/contract';
import { type Route, route } from '../../http/route.ts';
import { toBuild } from '../builds/template-build.ts';
import { toOwnTemplate } from '../custom/custom-template.ts';
import type { TemplateService } from './template-service.ts';

export function templateRoutes(service: TemplateService): Route[] {
  return [
    route(operations.createTemplate, async (request) => {
      const { template, build } = await service.create(request);
      return { template: toOwnTemplate(template, undefined), build: toBuild(build) };
    }),
    route(operations.listTemplates, async ({ credential }) => ({
      data: await service.list(credential),
      hasMore: false,
    })),
    route(operations.getTemplate, async ({ credential, params }) => ({
      template: await service.get(credential, params.template),
    })),
    route(operations.updateTemplate, async ({ credential, params, body, audit }) => ({
      template: await service.update(credential, params.template, body, audit),
    })),
    route(operations.deleteTemplate, async ({ credential, params, audit }) => ({
      template: await service.delete(credential, params.template, audit),
    })),
    route(operations.listTemplateVersions, async ({ credential, params }) => ({
      data: await service.versions(credential, params.template),
      hasMore: false,
    })),
  ];
}
