import type { AuditEvent, AuditEventPage, Operations, QueryOf } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import type { CallOptions } from './request.ts';

export interface AuditEventFilterOptions extends CallOptions {
  /** Only events with a larger `seq`. Default: every event that is still kept. */
  afterSeq?: number | undefined;
  /** Id of an API key, `operator` or `system`. */
  actor?: string | undefined;
  /** Such as `sandbox.created`. */
  action?: string | undefined;
  /** Id of the resource that the events are about. */
  target?: string | undefined;
  /** Only events at or after this time. */
  from?: Date | undefined;
  /** Only events before this time. */
  to?: Date | undefined;
}

export interface ListAuditEventsOptions extends AuditEventFilterOptions {
  /** Most events in the page, at most 500. Default: 100. */
  limit?: number | undefined;
}

/** The audit log of the organization. */
export class AuditEvents {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /**
   * Returns a page of audit events, oldest first. Continue with `nextSeq` as `afterSeq` while `hasMore`; a page may be
   * empty although more follow. `all` does this.
   */
  list(options: ListAuditEventsOptions = {}): Promise<AuditEventPage> {
    const { afterSeq, limit, actor, action, target, from, to, ...call } = options;
    const query: QueryOf<Operations['listAuditEvents']> = {
      ...(afterSeq === undefined ? {} : { afterSeq }),
      ...(limit === undefined ? {} : { limit }),
      ...(actor === undefined ? {} : { actor }),
      ...(action === undefined ? {} : { action }),
      ...(target === undefined ? {} : { target }),
      ...(from === undefined ? {} : { from: from.toISOString() }),
      ...(to === undefined ? {} : { to: to.toISOString() }),
    };
    return this.#client.call('listAuditEvents', { ...call, query });
  }

  /**
   * Yields every audit event that matches, oldest first, and requests a page at a time.
   *
   * ```ts
   * for await (const event of cloche.auditEvents.all({ action: 'api_key.created' })) console.log(event.actor.id);
   * ```
   */
  async *all(options: AuditEventFilterOptions = {}): AsyncGenerator<AuditEvent, void> {
    for (let afterSeq = options.afterSeq ?? 0, hasMore = true; hasMore; ) {
      const page = await this.list({ ...options, afterSeq });
      yield* page.data;
      ({ nextSeq: afterSeq, hasMore } = page);
    }
  }
}
