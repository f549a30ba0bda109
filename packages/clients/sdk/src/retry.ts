import type { ErrorCode } from '@cloche/contract';
import { ERRORS } from '@cloche/contract/client';
import type { ClocheError, ClocheErrorCode } from './cloche-error.ts';
import type { PreparedRequest } from './request.ts';

const LONGEST_PAUSE_MS = 5000;

/**
 * - `never`: the answer is final.
 * - `again`: another attempt may succeed.
 * - `outcome`: an earlier attempt still runs; the same key will be answered with its result.
 */
export type RetryKind = 'never' | 'again' | 'outcome';

/**
 * Returns what may follow `error`. Depends on the code, not the status: an exhausted quota and a rate limit are both
 * 429.
 */
export function retryKind(error: ClocheError, { repeatable }: Pick<PreparedRequest, 'repeatable'>): RetryKind {
  const whenRepeatable = repeatable ? 'again' : 'never';
  switch (error.code) {
    case 'idempotency_request_in_progress':
      return 'outcome';
    case 'unreachable':
      return whenRepeatable;
    case 'unexpected_response':
      // A proxy could not reach the service.
      return [429, 502, 503, 504].includes(error.status ?? 0) ? whenRepeatable : 'never';
    default:
      switch (retryableOf(error.code)) {
        case 'after':
          return 'again';
        case true:
          return whenRepeatable;
        case false:
          return 'never';
      }
  }
}

/** Returns `false` for a code that is not in this SDK's catalogue. */
function retryableOf(code: ClocheErrorCode): boolean | 'after' {
  return Object.hasOwn(ERRORS, code) && ERRORS[code as ErrorCode].retryable;
}

/** Returns the pause before attempt `retries` + 2: the time requested by the service, or doubling with jitter. */
export function retryPauseMs(error: ClocheError, retries: number, firstMs: number): number {
  if (error.retryAfterMs !== undefined) return error.retryAfterMs;
  const ceiling = Math.min(firstMs * 2 ** retries, LONGEST_PAUSE_MS);
  return ceiling * (0.5 + Math.random() / 2);
}

/** Parses `Retry-After`, which has seconds or a date, into milliseconds. */
export function readRetryAfter(header: string | null, now = Date.now()): number | undefined {
  if (header === null || header.trim() === '') return undefined;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}
