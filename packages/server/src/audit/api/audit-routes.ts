import { operations } from '@cloche/contract';
import { invalidRequest } from '../../base/app-error.ts';
import { type Route, route } from '../../http/route.ts';
import type { ProjectAccess } from '../../projects/access/project-access.ts';
import type { AuditFeed } from '../audit-feed.ts';

const PAGE_EVENTS = 100;

export function auditRoutes(feed: AuditFeed, projects: ProjectAccess): Route[] {
  return [
    route(operations.listAuditEvents, async ({ credential, query }) => {
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

function timeOf(name: string, text: string): number {
  const at = ISO_TIME.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isFinite(at)) return at;
  throw invalidRequest({ path: `query.${name}`, message: 'must be a time such as 2026-01-31T09:00:00Z' });
}

const ISO_TIME = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d))?$/;
