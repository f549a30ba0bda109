import type { OrgId, ProjectId, QuotaName } from '@cloche/contract';
import type { Database } from '../../platform/db/database.ts';
import { type PreparedQuery, prepareQuery } from '../../platform/db/prepared-query.ts';
import type { Transaction } from '../../platform/db/transactions.ts';
import { countUses, type Use, type UseBounds, useBounds } from './use-queries.ts';

/** A quota of an organization or, with `projectId`, of one of its projects. */
export interface CountedQuota {
  readonly quota: QuotaName;
  readonly projectId?: ProjectId | undefined;
}

/** Counts what is used, from rows alone, so that a server that dies leaves no wrong counts behind. */
export class UseCounts {
  readonly #db: Database;
  /** By what they count. Prepared, because each creation in a limited project needs one. */
  readonly #prepared = new Map<string, PreparedQuery<UseBounds & { readonly projectId: string }, Use>>();

  constructor(db: Database) {
    this.#db = db;
  }

  /** Returns how much of each of the quotas is used, by one query. */
  async count(orgId: OrgId, asked: readonly CountedQuota[], now: number, tx?: Transaction): Promise<number[]> {
    if (asked.length === 0) return [];
    const rows = await this.#read(useBounds(orgId, now), asked, tx);
    const used = new Map(rows.map((row) => [`${row.id} ${row.quota}`, Number(row.used)]));
    return asked.map(({ quota, projectId }) => used.get(`${projectId ?? orgId} ${quota}`) ?? 0);
  }

  async #read(bounds: UseBounds, asked: readonly CountedQuota[], tx?: Transaction): Promise<readonly Use[]> {
    const [ofProjects, ofOrganization] = [true, false].map((isOfProject) =>
      distinct(asked.flatMap(({ quota, projectId }) => ((projectId !== undefined) === isOfProject ? quota : []))),
    ) as [QuotaName[], QuotaName[]];
    const projectIds = distinct(asked.flatMap(({ projectId }) => projectId ?? []));
    const [projectId = ''] = projectIds;
    if (projectIds.length > 1) {
      return countUses(tx?.db ?? this.#db, bounds, { ofOrganization, ofProjects, projectIds }).execute();
    }
    const name = `${ofOrganization} ${ofProjects}`;
    const prepared =
      this.#prepared.get(name) ??
      prepareQuery(this.#db, (slots: UseBounds & { readonly projectId: string }) =>
        countUses(this.#db, slots, { ofOrganization, ofProjects, projectIds: [slots.projectId] }),
      );
    this.#prepared.set(name, prepared);
    return (await prepared({ ...bounds, projectId }, tx)).rows;
  }
}

function distinct<T>(values: readonly T[]): T[] {
  return [...new Set(values)];
}
