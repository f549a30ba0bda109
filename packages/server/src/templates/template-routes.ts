import { operations } from '@cloche/contract';
import { type Route, route } from '../http/route.ts';
import { toTemplate, toTemplateVersion } from './template.ts';
import type { TemplateCatalogue } from './template-catalogue.ts';

export function templateRoutes(catalogue: TemplateCatalogue): Route[] {
  return [
    route(operations.listTemplates, async () => ({
      data: catalogue.list().map(({ template, versions }) => toTemplate(template, versions[0])),
      hasMore: false,
    })),
    route(operations.getTemplate, async ({ params }) => {
      const { template, versions } = catalogue.get(params.template);
      return { template: toTemplate(template, versions[0]) };
    }),
    route(operations.listTemplateVersions, async ({ params }) => {
      const { template, versions } = catalogue.get(params.template);
      return { data: versions.map((version) => toTemplateVersion(template, version)), hasMore: false };
    }),
  ];
}
