import { operations } from '@cloche/contract';
import type { ProjectAccess } from '../../platform/access/project-access.ts';
import type { AuditFeed } from '../../platform/audit-log/audit-feed.ts';
import { timeOf } from '../../platform/http/query-time.ts';
import { type Route, route } from '../../platform/http/route.ts';

const PAGE_EVENTS = 100;

export function auditRoutes(feed: AuditFeed, projects: ProjectAccess): Route[] {
  return [
    route(operations.listAuditEvents, async ({ call: { credential }, query }) => {
      const { afterSeq = 0, limit = PAGE_EVENTS, from, to, ...equal } = query;
      const filter = {
        ...equal,
        orgId: credential.orgId,
        projectIds: await projects.listed(credential, undefined),
        from: from === undefined ? undefined : timeOf('from', from),
        to: to === undefined ? undefined : timeOf('to', to),
      };
      return feed.read(filter, afterSeq, limit);
    }),
  ];
}
