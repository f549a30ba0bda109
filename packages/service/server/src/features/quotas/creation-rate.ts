import type { Database } from '../../platform/db/database.ts';
import type { Limit } from './limits.ts';
import { createdInMinute, RATE_WINDOW_MS, useBounds } from './use-queries.ts';

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
  const { orgId, projectId } = limit;
  const created = createdInMinute(db, { bounds: useBounds(orgId, now), projectIds: projectId && [projectId] });
  const { count, oldest } = await created
    .select(({ fn }) => [fn.countAll<number>().as('count'), fn.min<number | null>('planned_at').as('oldest')])
    .executeTakeFirstOrThrow();
  const used = Number(count);
  // If the limit was lowered below current use, several creations must expire before the next one.
  const decisive =
    used > limit.limit && limit.limit > 0
      ? await created
          .select('planned_at as at')
          .orderBy('at', 'desc')
          .offset(limit.limit - 1)
          .limit(1)
          .executeTakeFirst()
      : undefined;
  return { limit, used, moreAt: Number(decisive?.at ?? oldest ?? now) + RATE_WINDOW_MS };
}
