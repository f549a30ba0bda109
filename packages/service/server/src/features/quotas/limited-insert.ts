import type { OrgId, ProjectId } from '@cloche/contract';
import { projectDeleted } from '../../platform/access/project-access.ts';
import type { Database } from '../../platform/db/database.ts';
import type { Transaction } from '../../platform/db/transactions.ts';
import { lockOrganization } from '../../platform/tenancy/lock-organization.ts';
import { isOpenProject } from '../../platform/tenancy/open-project.ts';

export type LimitedInsertion<Row> =
  | { readonly status: 'inserted'; readonly row: Row }
  /** A row already exists for the idempotency record. */
  | { readonly status: 'exists'; readonly row: Row }
  | { readonly status: 'full'; readonly used: number };

/** Tables whose rows count until they are marked as deleted. */
type KeptTable = 'custom_templates' | 'secrets' | 'webhooks';

export interface InsertLimit {
  /** Rows that an organization may have. */
  readonly limit: number;
  /** Throws unless quotas have room for one more row. */
  readonly requireRoom: () => Promise<void>;
}

export interface LimitedInsert<Row> extends InsertLimit {
  readonly orgId: OrgId;
  /** Undefined for a row of the whole organization. */
  readonly projectId: ProjectId | undefined;
  readonly table: KeptTable;
  readonly idempotencyRecordId: string | undefined;
  /** Finds the row that an earlier attempt of the same request inserted. */
  readonly findEarlier: (idempotencyRecordId: string) => Promise<Row | undefined>;
  readonly insert: () => Promise<Row>;
}

/**
 * Inserts a row in `tx`, unless the organization has as many as it may. Simultaneous insertions of an organization are
 * counted one after another.
 *
 * @throws AppError `not_found` when the project was deleted meanwhile
 */
export async function insertLimited<Row>(tx: Transaction, wanted: LimitedInsert<Row>): Promise<LimitedInsertion<Row>> {
  const { orgId, projectId, table, limit, requireRoom, idempotencyRecordId, findEarlier, insert } = wanted;
  await lockOrganization(tx, orgId);
  if (projectId && !(await isOpenProject(tx.db, projectId))) throw projectDeleted(projectId);
  const earlier = idempotencyRecordId === undefined ? undefined : await findEarlier(idempotencyRecordId);
  if (earlier) return { status: 'exists', row: earlier };
  const used = await countKept(tx.db, table, orgId);
  if (used >= limit) return { status: 'full', used };
  await requireRoom();
  return { status: 'inserted', row: await insert() };
}

async function countKept(db: Database, table: KeptTable, orgId: OrgId): Promise<number> {
  const { rows } = await db
    .selectFrom(table)
    .where('org_id', '=', orgId)
    .where('deleted_at', 'is', null)
    .select(({ fn }) => fn.countAll<number>().as('rows'))
    .executeTakeFirstOrThrow();
  return Number(rows);
}
