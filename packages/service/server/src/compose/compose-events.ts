import type { OrgId } from '@cloche/contract';
import type { Database } from '../db/database.ts';
import { type Notifications, sharedChanges } from '../db/notifications.ts';
import { EventFeed } from '../events/event-feed.ts';
import { eventRoutes } from '../events/event-routes.ts';
import type { Route } from '../http/route.ts';
import type { EventOutbox } from '../outbox/event-outbox.ts';
import type { ProjectAccess } from '../projects/access/project-access.ts';

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
