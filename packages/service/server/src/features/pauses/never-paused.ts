import { AppError } from '../../platform/base/app-error.ts';
import type { Database } from '../../platform/db/database.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';

/** Tables of the work for which the service itself has created sandboxes. */
const OWNERS = ['workspace_runs', 'template_builds'] as const;

/** @throws AppError `conflict` if the sandbox belongs to a workspace run or a build */
export async function refuseNeverPaused(db: Database, { id }: SandboxRecord): Promise<void> {
  for (const table of OWNERS) {
    const owner = await db.selectFrom(table).select('id').where('sandbox_id', '=', id).executeTakeFirst();
    if (!owner) continue;
    const message = `The sandbox "${id}" belongs to a workspace run or a build, which is never paused.`;
    throw new AppError('conflict', message);
  }
}
