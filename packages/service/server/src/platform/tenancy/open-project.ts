import type { ProjectId } from '@cloche/contract';
import type { Database } from '../db/database.ts';
import { locksRows } from '../db/row-locks.ts';

/**
 * Returns whether the project exists and is not deleted. In a transaction, it stays so until the end of the
 * transaction: a simultaneous deletion waits.
 */
export async function isOpenProject(db: Database, projectId: ProjectId): Promise<boolean> {
  const query = db.selectFrom('projects').select('id').where('id', '=', projectId).where('deleted_at', 'is', null);
  return (await query.$if(locksRows(db), (open) => open.forKeyShare()).executeTakeFirst()) !== undefined;
}
