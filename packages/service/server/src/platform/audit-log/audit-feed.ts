import type { AuditEventPage, OrgId, ProjectId } from '@cloche/contract';
import type { Database } from '../db/database.ts';
import { lookThrough } from '../db/look-through.ts';
import { type AuditRow, toAuditEvent } from './audit-chain.ts';

export interface AuditFilter {
  readonly orgId: OrgId;
  /** Undefined means every event of the organization, also those of no project. */
  readonly projectIds?: readonly ProjectId[] | undefined;
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  readonly target?: string | undefined;
  /** Milliseconds since the epoch: the first time, and the first that is too late. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** Reads the audit events of an organization in order. */
export class AuditFeed {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  /** Returns the events that follow `afterSeq`: at most `limit` of them, and of a bounded part of all events. */
  async read(filter: AuditFilter, afterSeq: number, limit: number): Promise<AuditEventPage> {
    const head = await this.#lastSeq(filter.orgId);
    const until = await lookThrough(this.#db, 'audit_events', { orgId: filter.orgId, afterSeq });
    if (until === undefined) return { data: [], nextSeq: head, hasMore: false };
    const rows = await this.#matching(filter, { afterSeq, until, limit });
    const nextSeq = rows.length === limit ? (rows.at(-1)?.seq ?? until) : until;
    return { data: rows.map(toAuditEvent), nextSeq, hasMore: nextSeq < head };
  }

  async #lastSeq(orgId: OrgId): Promise<number> {
    const query = this.#db.selectFrom('audit_heads').select('last_seq').where('org_id', '=', orgId);
    return (await query.executeTakeFirst())?.last_seq ?? 0;
  }

  #matching(
    { orgId, projectIds, actor, action, target, from, to }: AuditFilter,
    { afterSeq, until, limit }: { afterSeq: number; until: number; limit: number },
  ): Promise<AuditRow[]> {
    let query = this.#db.selectFrom('audit_events').selectAll().where('org_id', '=', orgId);
    query = query.where('seq', '>', afterSeq).where('seq', '<=', until);
    if (projectIds) query = query.where('project_id', 'in', projectIds);
    if (actor !== undefined) query = query.where('actor_id', '=', actor);
    if (action !== undefined) query = query.where('action', '=', action);
    if (target !== undefined) query = query.where('target_id', '=', target);
    if (from !== undefined) query = query.where('at', '>=', from);
    if (to !== undefined) query = query.where('at', '<', to);
    return query.orderBy('seq').limit(limit).execute();
  }
}
