import { operations } from '@cloche/contract';
import { type Route, route } from '../http/route.ts';
import type { ProjectAccess } from '../projects/access/project-access.ts';
import type { Quotas } from './quotas.ts';

export function quotaRoutes(quotas: Quotas, access: ProjectAccess): Route[] {
  return [
    route(operations.listQuotas, async ({ credential, query }) => {
      const { orgId } = credential;
      const projectIds = await access.listed(credential, query.projectId);
      const scopes = projectIds?.map((projectId) => ({ orgId, projectId })) ?? [{ orgId }];
      const lists = await Promise.all(scopes.map((scope) => quotas.list(scope)));
      return { data: lists.flat(), hasMore: false };
    }),
  ];
}
