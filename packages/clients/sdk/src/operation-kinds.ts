/** The operations of the contract, by the form of their responses. */
import type { OperationId, Operations, ResponseOf } from '@cloche/contract';

type EventsId = { [Id in OperationId]: Operations[Id] extends { events: unknown } ? Id : never }[OperationId];
/** Operations whose response is a resumable stream. */
export type FollowId = Extract<EventsId, 'streamCommand'>;
/** Operations whose response is the stream of a build. */
export type BuildFollowId = Extract<EventsId, 'streamTemplateBuildLogs'>;
/** Operations whose response is the stream of a run. */
export type StreamId = Exclude<EventsId, FollowId | BuildFollowId | WatchId | EventFeedId | RunFeedId>;
/** Operations whose response is a stream of events of resources. */
export type EventFeedId = Extract<EventsId, 'streamEvents'>;
/** Operations whose response is the stream of events of a workspace run. */
export type RunFeedId = Extract<EventsId, 'streamWorkspaceRunEvents'>;
/** Operations whose response is a stream of changes. */
export type WatchId = Extract<EventsId, 'watchFiles'>;
/** Operations whose response is bytes. */
export type DownloadId = {
  [Id in OperationId]: Operations[Id] extends { download: unknown } ? Id : never;
}[OperationId];
/** Operations whose response is one JSON body. */
export type CallId = Exclude<OperationId, EventsId | DownloadId | SocketId>;
/** Operations that open a WebSocket. */
export type SocketId = { [Id in OperationId]: Operations[Id] extends { webSocket: string } ? Id : never }[OperationId];
/** Operations whose response is a page of a list. */
export type ListId = { [Id in CallId]: 'nextCursor' extends keyof ResponseOf<Operations[Id]> ? Id : never }[CallId];
