import { LIMITS } from './limits.ts';

export const IDEMPOTENCY_HEADER = 'idempotency-key';
/** Header with the value `true` on a response that repeats an earlier one. */
export const REPLAYED_HEADER = 'idempotency-replayed';

/** No spaces at the ends, because HTTP removes them from header values. */
export const IDEMPOTENCY_KEY_PATTERN = '^[!-~](?:[ -~]*[!-~])?$';

const KEY = new RegExp(`^[\\x20-\\x7e]{1,${LIMITS.idempotencyKeyLength}}$`);

/** Returns whether `text` has 1 to 255 printable ASCII characters. */
export function isIdempotencyKey(text: string): boolean {
  return KEY.test(text);
}
