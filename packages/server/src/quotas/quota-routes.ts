import { setImmediate } from 'node:timers/promises';
import { operations, type QuotaUse } from '@cloche/contract';
import { type Route, route } from '../http/route.ts';
import type { ProjectAccess } from '../projects/access/project-access.ts';
import type { Quotas } from './quotas.ts';

export function quotaRoutes(quotas: Quotas, access: ProjectAccess): Route[] {
  return [
    route(operations.listQuotas, async ({ credential, query, signal }) => {
      const { orgId } = credential;
      const projectIds = await access.listed(credential, query.projectId);
      const scopes = projectIds?.map((projectId) => ({ orgId, projectId })) ?? [{ orgId }];
      const data: QuotaUse[] = [];
      // One after another, so that a key of many projects neither takes the whole pool of connections nor holds the thread.
      for (const scope of scopes) {
        data.push(...(await quotas.list(scope)));
        await setImmediate();
        signal.throwIfAborted();
      }
      return { data, hasMore: false };
    }),
  ];
}
