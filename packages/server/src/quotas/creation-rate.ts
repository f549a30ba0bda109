import type { Database } from '../db/database.ts';
import type { Limit } from './limits.ts';
import { nextCreationAt, RATE_WINDOW_MS } from './use-counts.ts';

/** Use of a limit on the creations in a minute. */
export interface CreationRate {
  readonly limit: Limit;
  readonly used: number;
  /** Time at which more sandboxes can be created than now, in `Clock` milliseconds. */
  readonly moreAt: number;
}

/** Returns the use of those `limits` that limit the creations in a minute. */
export async function readCreationRates(db: Database, limits: readonly Limit[], now: number): Promise<CreationRate[]> {
  const rates: CreationRate[] = [];
  for (const limit of limits) {
    if (limit.quota === 'sandboxesPerMinute') rates.push(await readCreationRate(db, limit, now));
  }
  return rates;
}

async function readCreationRate(db: Database, limit: Limit, now: number): Promise<CreationRate> {
  let created = db
    .selectFrom('sandboxes')
    .where('org_id', '=', limit.orgId)
    .where('created_at', '>', now - RATE_WINDOW_MS);
  if (limit.projectId !== undefined) created = created.where('project_id', '=', limit.projectId);
  const { count, oldest } = await created
    .select(({ fn }) => [fn.countAll<number>().as('count'), fn.min<number | null>('created_at').as('oldest')])
    .executeTakeFirstOrThrow();
  const used = Number(count);
  // If the limit was lowered below the use, one more creation is possible only after several have expired, not after
  // the oldest.
  const decisive = used > limit.limit ? await nextCreationAt(db, limit, limit.limit) : undefined;
  const oldestEnds = (oldest === null ? now : Number(oldest)) + RATE_WINDOW_MS;
  return { limit, used, moreAt: decisive ?? oldestEnds };
}
