import type { OrgId } from '@cloche/contract';
import { locksRows } from '../db/row-locks.ts';
import type { Transaction } from '../db/transactions.ts';

/**
 * Makes other transactions that count resources of the organization wait until the end of this one, so that its count
 * stays correct. Call it before any other lock of the transaction: all transactions lock in this order, so no two can
 * wait for each other. Inserts that only refer to the organization do not wait.
 */
export async function lockOrganization({ db }: Transaction, orgId: OrgId): Promise<void> {
  if (locksRows(db)) await db.selectFrom('orgs').select('id').where('id', '=', orgId).forNoKeyUpdate().execute();
}
