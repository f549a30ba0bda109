import type { OrgId } from '@cloche/contract';
import { EventFeed } from '../features/events/event-feed.ts';
import { eventRoutes } from '../features/events/event-routes.ts';
import type { ProjectAccess } from '../platform/access/project-access.ts';
import type { Database } from '../platform/db/database.ts';
import { type Notifications, sharedChanges } from '../platform/db/notifications.ts';
import type { Route } from '../platform/http/route.ts';
import type { EventOutbox } from '../platform/outbox/event-outbox.ts';

export interface EventsDeps {
  readonly db: Database;
  readonly outbox: EventOutbox;
  readonly projects: ProjectAccess;
  readonly notifications: Notifications;
}

export function composeEvents({ db, outbox, projects, notifications }: EventsDeps): { routes: Route[] } {
  const appended = sharedChanges<OrgId>('event', notifications);
  return { routes: eventRoutes(new EventFeed(db, outbox, appended), projects) };
}
