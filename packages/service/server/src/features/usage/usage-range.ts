import { LIMITS } from '@cloche/contract';
import { invalidRequest } from '../../platform/base/app-error.ts';
import { timeOf } from '../../platform/http/query-time.ts';
import { HOUR_MS } from '../metering/hour-sums.ts';

export const GROUP_MS = { day: 24 * HOUR_MS, hour: HOUR_MS } as const;
export type GroupBy = keyof typeof GROUP_MS;

/** Whole days or hours. `to` is the first time after them. */
export interface UsageRange {
  readonly from: number;
  readonly to: number;
  readonly groupBy: GroupBy;
}

export interface RangeQuery {
  readonly from?: string;
  readonly to?: string;
  readonly groupBy?: GroupBy;
}

/** @throws AppError `invalid_request` for a time that cannot be read and for a range that is empty or too long */
export function rangeOf({ from: fromText, to: toText, groupBy = 'day' }: RangeQuery, now: number): UsageRange {
  const groupMs = GROUP_MS[groupBy];
  // The current millisecond belongs to the range.
  const end = toText === undefined ? now + 1 : timeOf('to', toText);
  const start = fromText === undefined ? monthOf(end - 1) : timeOf('from', fromText);
  if (start >= end) throw invalidRequest({ path: 'query.from', message: 'must be before the end of the range, `to`' });
  // Rounds down also before 1970.
  const from = Math.floor(start / groupMs) * groupMs;
  const to = Math.ceil(end / groupMs) * groupMs;
  const [most, remedy] =
    groupBy === 'day'
      ? [LIMITS.usageDays, 'request a later `from` or an earlier `to`']
      : [LIMITS.usageHours, 'request a later `from`, an earlier `to`, or `groupBy=day`'];
  const groups = (to - from) / groupMs;
  if (groups <= most) return { from, to, groupBy };
  const message = `begins ${groups} ${groupBy}s before the end of the range, which may have at most ${most}; ${remedy}`;
  throw invalidRequest({ path: 'query.from', message });
}

/** Returns the beginning of the month (UTC). */
function monthOf(at: number): number {
  const date = new Date(at);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth());
}
