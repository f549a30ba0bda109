import type { QuotaName } from '@cloche/contract';
import type { Database } from '../../platform/db/database.ts';
import type { Limit } from './limits.ts';
import type { Additions } from './quotas.ts';
import { type CountedScope, createdInMinute, RATE_WINDOW_MS, useBounds, wokenInMinute } from './use-queries.ts';

/** Queries that select the time of each event that a limit per minute counts. Requests are counted elsewhere. */
const COUNTED = {
  sandboxesPerMinute: (db: Database, scope: CountedScope) => createdInMinute(db, scope).select('planned_at as at'),
  wakesPerMinute: (db: Database, scope: CountedScope) => wokenInMinute(db, scope).select('at'),
} as const;
type RateQuota = keyof typeof COUNTED;

/** Use of a limit on what happens in a minute. */
export interface MinuteRate {
  readonly limit: Limit;
  readonly used: number;
  /** Time at which more is left than now, in `Clock` milliseconds. */
  readonly moreAt: number;
}

export function isRate(quota: QuotaName): quota is RateQuota {
  return Object.hasOwn(COUNTED, quota);
}

/** Returns the use of those `limits` of a minute that the additions concern. */
export async function readMinuteRates(
  db: Database,
  limits: readonly Limit[],
  additions: Additions,
  now: number,
): Promise<MinuteRate[]> {
  const rates: MinuteRate[] = [];
  for (const limit of limits) {
    const { quota } = limit;
    if (isRate(quota) && additions[quota]) rates.push(await readMinuteRate(db, { ...limit, quota }, now));
  }
  return rates;
}

async function readMinuteRate(db: Database, limit: Limit & { quota: RateQuota }, now: number): Promise<MinuteRate> {
  const { quota, orgId, projectId } = limit;
  const scope = { bounds: useBounds(orgId, now), projectIds: projectId && [projectId] };
  const counted = db.selectFrom(COUNTED[quota](db, scope).as('counted'));
  const { count, oldest } = await counted
    .select(({ fn }) => [fn.countAll<number>().as('count'), fn.min<number | null>('at').as('oldest')])
    .executeTakeFirstOrThrow();
  const used = Number(count);
  // If the limit was lowered below current use, several must expire before the next one.
  const decisive =
    used > limit.limit && limit.limit > 0
      ? await counted
          .select('at')
          .orderBy('at', 'desc')
          .offset(limit.limit - 1)
          .limit(1)
          .executeTakeFirst()
      : undefined;
  return { limit, used, moreAt: Number(decisive?.at ?? oldest ?? now) + RATE_WINDOW_MS };
}
