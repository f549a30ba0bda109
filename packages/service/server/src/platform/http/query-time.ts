import { invalidRequest } from '../base/app-error.ts';

/** Every time of RFC 3339 with up to nine digits of a second, also without seconds, and a day. */
const ISO_TIME = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/i;

/**
 * Returns the time that a query parameter gives in ISO 8601, in milliseconds since the epoch.
 *
 * @throws AppError `invalid_request` that names the parameter
 */
export function timeOf(name: string, text: string): number {
  const at = ISO_TIME.test(text) ? Date.parse(text.toUpperCase()) : Number.NaN;
  if (Number.isFinite(at) && isDay(text.slice(0, 10))) return at;
  throw invalidRequest({ path: `query.${name}`, message: 'must be a time such as 2026-01-31T09:00:00Z' });
}

/** Returns whether the month has the day: `Date.parse` takes the 30th of February for the 2nd of March. */
function isDay(text: string): boolean {
  return new Date(text).toISOString().startsWith(text);
}

/** Returns the times of creation that a list is restricted to. @throws AppError `invalid_request` that names the parameter */
export function createdBetween({
  createdAfter,
  createdBefore,
}: {
  readonly createdAfter?: string;
  readonly createdBefore?: string;
}) {
  return {
    createdAfter: createdAfter === undefined ? undefined : timeOf('createdAfter', createdAfter),
    createdBefore: createdBefore === undefined ? undefined : timeOf('createdBefore', createdBefore),
  };
}
