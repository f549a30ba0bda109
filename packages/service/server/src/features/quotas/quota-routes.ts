import { operations } from '@cloche/contract';
import type { ProjectAccess } from '../../platform/access/project-access.ts';
import { type Route, route } from '../../platform/http/route.ts';
import type { Quotas } from './quotas.ts';

export function quotaRoutes(quotas: Quotas, access: ProjectAccess): Route[] {
  return [
    route(operations.listQuotas, async ({ call: { credential }, query }) => {
      const projectIds = await access.listed(credential, query.projectId);
      return { data: await quotas.list(credential.orgId, projectIds), hasMore: false };
    }),
  ];
}
