import { type OrgId, type ProjectId, type ProjectQuotas, QUOTA_NAMES, type QuotaName } from '@cloche/contract';
import { invalidRequest } from '../../platform/base/app-error.ts';
import type { Database } from '../../platform/db/database.ts';
import { type PreparedQuery, prepareQuery } from '../../platform/db/prepared-query.ts';
import { locksRows } from '../../platform/db/row-locks.ts';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';

export interface ProjectScope {
  readonly orgId: OrgId;
  readonly projectId: ProjectId;
}
/** An organization or, with `projectId`, one of its projects. */
export type QuotaScope = Pick<ProjectScope, 'orgId'> & Partial<ProjectScope>;

/** A limit of an organization or, with `projectId`, of a project. */
export type Limit = QuotaScope & { readonly quota: QuotaName; readonly limit: number };

/** The limits of a project or, without `projectId`, of its organization. */
export interface ScopeLimits {
  readonly projectId?: ProjectId;
  readonly limits: ProjectQuotas;
}

/**
 * Reads and sets limits. The row of a project to which any limit applies is marked (`limited`), so that requests in all
 * other projects need no query for limits.
 */
export class Limits {
  readonly #db: Database;
  readonly #transactions: Transactions;
  readonly #defaults: ProjectQuotas;
  /** Prepared, because each creation in a limited project reads limits. */
  readonly #lockedOrganization: PreparedQuery<{ id: string }, { quotas: string }>;
  readonly #project: PreparedQuery<{ id: string }, { limited: number; quotas: string }>;
  /** Prepared, because the limits of requests are read once a second. */
  readonly #limitedProjects: PreparedQuery<{ orgId: string }, { id: string; quotas: string }>;

  /** @param defaults limits of every organization whose operator sets no others */
  constructor(db: Database, transactions: Transactions, defaults: ProjectQuotas) {
    this.#db = db;
    this.#transactions = transactions;
    this.#defaults = defaults;
    this.#lockedOrganization = prepareQuery(db, ({ id }: { id: string }) =>
      db
        .selectFrom('orgs')
        .select('quotas')
        .where('id', '=', id)
        .$if(locksRows(db), (query) => query.forNoKeyUpdate()),
    );
    this.#project = prepareQuery(db, ({ id }: { id: string }) =>
      db.selectFrom('projects').select(['limited', 'quotas']).where('id', '=', id),
    );
    this.#limitedProjects = prepareQuery(db, ({ orgId }: { orgId: string }) =>
      db.selectFrom('projects').select(['id', 'quotas']).where('org_id', '=', orgId).where('limited', '=', 1),
    );
  }

  /**
   * Returns whether the settings limit one of these quotas in every organization, whether or not its projects are
   * marked.
   */
  limitAll(quotas: ProjectQuotas): boolean {
    return QUOTA_NAMES.some((quota) => quotas[quota] !== undefined && hasLimit({ [quota]: this.#defaults[quota] }));
  }

  /**
   * Returns the limits that apply in a project. If there are any, requests that need the limits of the organization
   * wait until the end of the transaction, so that the counts of the transaction stay correct. On PostgreSQL this is a
   * lock on the row of the organization; SQLite has only one connection.
   */
  async lock(tx: Transaction, { orgId, projectId }: QuotaScope): Promise<Limit[]> {
    if (projectId === undefined) return listed(this.#withDefaults(await this.#lockOrganization(tx, orgId)), { orgId });
    if (!hasLimit(this.#defaults) && (await this.#findProject(tx, projectId))?.limited !== 1) return [];
    const ofOrganization = this.#withDefaults(await this.#lockOrganization(tx, orgId));
    // Read under the lock, because a change of limits holds it too.
    const ofProject = JSON.parse((await this.#findProject(tx, projectId))?.quotas ?? '{}');
    return [...listed(ofOrganization, { orgId }), ...listed(ofProject, { orgId, projectId })];
  }

  /** Returns the limits of an organization and of all its projects for one quota. */
  async listAll(orgId: OrgId, quota: QuotaName): Promise<Limit[]> {
    const { rows: projects } = await this.#limitedProjects({ orgId });
    if (projects.length === 0 && !hasLimit({ [quota]: this.#defaults[quota] })) return [];
    const all = listed(this.#withDefaults(await ownLimits(this.#db, orgId)), { orgId });
    for (const { id, quotas } of projects) {
      all.push(...listed(JSON.parse(quotas), { orgId, projectId: id as ProjectId }));
    }
    return all.filter((limit) => limit.quota === quota);
  }

  /** Returns the limits of an organization. */
  async of(orgId: OrgId): Promise<ProjectQuotas> {
    return this.#withDefaults(await ownLimits(this.#db, orgId));
  }

  /** Returns the limits of each of the projects, or of the organization. */
  async listOf(orgId: OrgId, projectIds?: readonly ProjectId[]): Promise<ScopeLimits[]> {
    if (!projectIds) return [{ limits: await this.of(orgId) }];
    const query = this.#db.selectFrom('projects').select(['id', 'quotas']).where('org_id', '=', orgId);
    const rows = await query.where('id', 'in', projectIds).execute();
    const quotas = new Map(rows.map((row) => [row.id, row.quotas]));
    return projectIds.map((projectId) => ({ projectId, limits: JSON.parse(quotas.get(projectId) ?? '{}') }));
  }

  /**
   * Checks limits of a new or existing project, which the caller then writes in the same transaction. Returns the mark
   * `limited` for its row. Waits for creations in the project that are under way, so that later ones count them.
   *
   * @throws AppError `invalid_request` for a limit above the organization's
   */
  async requireWithinOrganization(
    tx: Transaction,
    { orgId, projectId }: QuotaScope,
    quotas: ProjectQuotas,
  ): Promise<0 | 1> {
    const own = await this.#lockOrganization(tx, orgId);
    const ofOrganization = this.#withDefaults(own);
    if (projectId !== undefined) await lockProjects(tx.db, orgId, projectId);
    for (const { quota, limit } of listed(quotas, { orgId })) {
      const most = ofOrganization[quota] ?? undefined;
      if (most === undefined || limit <= most) continue;
      const message = `is ${limit}; the limit of the organization is ${most}, and a project may have at most that`;
      throw invalidRequest({ path: `body.quotas.${quota}`, message });
    }
    return hasLimit(quotas) || hasLimit(own) ? 1 : 0;
  }

  /**
   * Sets the given limits of an organization; `null` removes one. Limits of its projects stay, also those that are
   * higher now.
   *
   * @param appendEvent appends the audit event in the same transaction
   */
  async setOrganization(
    orgId: OrgId,
    changes: ProjectQuotas,
    appendEvent?: (tx: Transaction) => Promise<void>,
  ): Promise<void> {
    await this.#transactions.run(async (tx) => {
      const { db } = tx;
      const quotas = { ...(await this.#lockOrganization(tx, orgId)), ...changes };
      await db
        .updateTable('orgs')
        .set({ quotas: JSON.stringify(quotas) })
        .where('id', '=', orgId)
        .execute();
      for (const project of await lockProjects(db, orgId)) {
        const limited = hasLimit(quotas) || hasLimit(JSON.parse(project.quotas)) ? 1 : 0;
        if (limited === project.limited) continue;
        await db.updateTable('projects').set({ limited }).where('id', '=', project.id).execute();
      }
      await appendEvent?.(tx);
    });
  }

  /** Returns what the operator has set for an organization, under a lock on its row where rows can be locked. */
  async #lockOrganization(tx: Transaction, id: OrgId): Promise<ProjectQuotas> {
    const [row] = (await this.#lockedOrganization({ id }, tx)).rows;
    if (!row) throw new Error(`the organization ${id} does not exist`);
    return JSON.parse(row.quotas);
  }

  async #findProject(tx: Transaction, id: ProjectId): Promise<{ limited: number; quotas: string } | undefined> {
    return (await this.#project({ id }, tx)).rows[0];
  }

  #withDefaults(own: ProjectQuotas): ProjectQuotas {
    const set = Object.entries(own).filter(([, limit]) => limit !== null);
    return { ...this.#defaults, ...Object.fromEntries(set) };
  }
}

/** Returns what the operator has set for an organization. */
async function ownLimits(db: Database, orgId: OrgId): Promise<ProjectQuotas> {
  const query = db.selectFrom('orgs').select('quotas').where('id', '=', orgId);
  return JSON.parse((await query.executeTakeFirstOrThrow()).quotas);
}

/** A creation holds its project with `for key share`, which only `for update` waits for. */
function lockProjects(db: Database, orgId: OrgId, projectId?: ProjectId) {
  let query = db.selectFrom('projects').select(['id', 'quotas', 'limited']).where('org_id', '=', orgId);
  if (projectId !== undefined) query = query.where('id', '=', projectId);
  return query
    .orderBy('id')
    .$if(locksRows(db), (open) => open.forUpdate())
    .execute();
}

function listed(quotas: ProjectQuotas, scope: QuotaScope): Limit[] {
  return QUOTA_NAMES.flatMap((quota) => {
    const limit = quotas[quota] ?? undefined;
    return limit === undefined ? [] : [{ ...scope, quota, limit }];
  });
}

function hasLimit(quotas: ProjectQuotas): boolean {
  return Object.values(quotas).some((limit) => limit !== null && limit !== undefined);
}
