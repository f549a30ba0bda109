import { EVENT_TYPES, type EventType, operations, type ResourceEvent } from '@cloche/contract';
import type { ProjectAccess } from '../../platform/access/project-access.ts';
import { invalidRequest } from '../../platform/base/app-error.ts';
import type { Call } from '../../platform/call/call.ts';
import { lastSeen } from '../../platform/http/last-seen.ts';
import { type Route, route, streamRoute } from '../../platform/http/route.ts';
import type { SseEvent } from '../../platform/http/sse.ts';
import type { EventFeed, EventFilter } from './event-feed.ts';

const PAGE_EVENTS = 100;

export function eventRoutes(feed: EventFeed, projects: ProjectAccess): Route[] {
  const filterOf = async (
    { credential }: Call,
    { projectId, types }: { projectId?: string; types?: string },
  ): Promise<EventFilter> => ({
    orgId: credential.orgId,
    projectIds: await projects.listed(credential, projectId),
    types: types === undefined ? undefined : typesOf(types),
  });
  return [
    route(operations.listEvents, async ({ call, query }) =>
      feed.read(await filterOf(call, query), query.afterSeq ?? 0, query.limit ?? PAGE_EVENTS),
    ),
    streamRoute(operations.streamEvents, async ({ call, query, lastEventId }) => {
      const afterSeq = lastSeen(lastEventId) ?? query.afterSeq ?? 0;
      const events = feed.follow(await filterOf(call, query), afterSeq, call.signal);
      // Sound: `SseWriter` writes each frame's data as the event that it is made of.
      return framed(events) as AsyncIterable<never>;
    }),
  ];
}

async function* framed(events: AsyncIterable<ResourceEvent>): AsyncGenerator<SseEvent, void> {
  for await (const { type, data, ...fields } of events) yield { id: fields.seq, type, data, fields };
}

/** Returns the types that a list such as `sandbox.*,artifact.created` names. @throws AppError `invalid_request` */
function typesOf(list: string): EventType[] {
  return list.split(',').flatMap((name) => {
    const named = EVENT_TYPES.filter((type) => type === name || `${type.split('.')[0]}.*` === name);
    if (named.length > 0) return named;
    throw invalidRequest({
      path: 'query.types',
      message: `has "${name.slice(0, 80)}", which is no type of event; use ${EVENT_TYPES.join(', ')}, or the part before the dot with .*`,
    });
  });
}
