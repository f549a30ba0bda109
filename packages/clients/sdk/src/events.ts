import type { EventPage, EventTypeFilter, Operations, QueryOf, ResourceEvent } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import type { CallOptions } from './request.ts';

export interface EventFilterOptions extends CallOptions {
  /** Only events with a larger `seq`. Default: every event that is still kept. */
  afterSeq?: number | undefined;
  /** Only events of these types. `sandbox.*` stands for all types that begin with `sandbox.`. */
  types?: readonly EventTypeFilter[] | undefined;
  projectId?: string | undefined;
}

export interface ListEventsOptions extends EventFilterOptions {
  /** Most events in the page, at most 500. Default: 100. */
  limit?: number | undefined;
}

/** The events of the resources that the key can see. */
export class Events {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /**
   * Returns a page of events, oldest first. Continue with `nextSeq` as `afterSeq` while `hasMore`; a page may be empty
   * although more follow.
   */
  list(options: ListEventsOptions = {}): Promise<EventPage> {
    const { limit, ...rest } = options;
    const { call, query } = requestOf(rest);
    return this.#client.call('listEvents', { ...call, query: { ...query, ...(limit === undefined ? {} : { limit }) } });
  }

  /** Returns the `seq` of the newest event, 0 if there is none. Events that follow it are new. */
  async lastSeq(options: CallOptions = {}): Promise<number> {
    return (await this.list({ ...options, afterSeq: Number.MAX_SAFE_INTEGER, limit: 1 })).nextSeq;
  }

  /**
   * Yields the events after `afterSeq` and then each new one, until the caller leaves the loop. Resumes an interrupted
   * stream without losing or repeating an event, and waits up to 30 seconds for an unreachable service.
   *
   * ```ts
   * for await (const event of cloche.events.stream({ types: ['sandbox.*'] })) {
   *   if (event.type === 'sandbox.failed') console.log(event.data.sandbox.failureReason);
   * }
   * ```
   */
  stream(options: EventFilterOptions = {}): AsyncGenerator<ResourceEvent, void> {
    const { call, query } = requestOf(options);
    return this.#client.followEvents('streamEvents', { ...call, query });
  }
}

function requestOf({ afterSeq, types, projectId, ...call }: EventFilterOptions) {
  const query: QueryOf<Operations['streamEvents']> = {
    ...(afterSeq === undefined ? {} : { afterSeq }),
    ...(types === undefined || types.length === 0 ? {} : { types: types.join(',') }),
    ...(projectId === undefined ? {} : { projectId }),
  };
  return { call, query };
}
