import { LIMITS, operations } from '@cloche/contract';
import { lastSeen } from '../../../platform/http/last-seen.ts';
import { listRoute } from '../../../platform/http/list-route.ts';
import { createdBetween } from '../../../platform/http/query-time.ts';
import { type Route, route, streamRoute } from '../../../platform/http/route.ts';
import { toWorkspaceRun, type WorkspaceRunRecord } from '../record/workspace-run.ts';
import type { WorkspaceRunAccess } from '../record/workspace-run-access.ts';
import type { CancelRun } from './cancel-run.ts';
import type { RunEvents } from './run-events.ts';
import type { StartRun } from './start-run.ts';
import type { WorkspaceRunService } from './workspace-run-service.ts';

const PAGE_EVENTS = 100;

export interface WorkspaceRunRoutesDeps {
  readonly service: WorkspaceRunService;
  readonly startRun: StartRun;
  readonly cancelRun: CancelRun;
  readonly runEvents: RunEvents;
  readonly runAccess: WorkspaceRunAccess;
}

export function workspaceRunRoutes({
  service,
  startRun,
  cancelRun,
  runEvents,
  runAccess,
}: WorkspaceRunRoutesDeps): Route[] {
  const answer = (record: WorkspaceRunRecord) => ({ workspaceRun: toWorkspaceRun(record) });
  return [
    route(operations.createWorkspaceRun, async ({ call, body }) => answer(await service.create(call, body))),
    listRoute(operations.listWorkspaceRuns, ({ call, query }) => service.list(call, query, createdBetween(query))),
    route(operations.getWorkspaceRun, async ({ call, params, query }) => {
      const record = await runAccess.get(call.credential, params.workspaceRunId);
      if (query.waitFor === undefined) return answer(record);
      return answer(await service.finished(call, record, query.waitMs ?? LIMITS.waitDefaultMs));
    }),
    route(operations.startWorkspaceRun, async ({ call, params }) =>
      answer(await startRun.start(call, await runAccess.get(call.credential, params.workspaceRunId))),
    ),
    route(operations.listWorkspaceRunEvents, async ({ call, params, query }) => {
      const { id } = await runAccess.get(call.credential, params.workspaceRunId);
      return runEvents.read(id, query.afterSeq ?? 0, query.limit ?? PAGE_EVENTS);
    }),
    streamRoute(operations.streamWorkspaceRunEvents, async ({ call, params, query, lastEventId }) => {
      const { id } = await runAccess.get(call.credential, params.workspaceRunId);
      // Sound: `SseWriter` writes each frame's data as the event that it is made of.
      return runEvents.follow(id, lastSeen(lastEventId) ?? query.afterSeq ?? 0, call.signal) as AsyncIterable<never>;
    }),
    route(operations.cancelWorkspaceRun, async ({ call, params }) =>
      answer(await cancelRun.cancel(call, await runAccess.get(call.credential, params.workspaceRunId))),
    ),
  ];
}
