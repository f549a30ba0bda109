import { LIMITS } from './limits.ts';

export const IDEMPOTENCY_HEADER = 'idempotency-key';
/** `true` on a response that repeats an earlier one. */
export const REPLAYED_HEADER = 'idempotency-replayed';

/** As a header can carry it: without spaces at its ends, which HTTP removes. */
export const IDEMPOTENCY_KEY_PATTERN = '^[!-~](?:[ -~]*[!-~])?$';

const KEY = new RegExp(`^[\\x20-\\x7e]{1,${LIMITS.idempotencyKeyLength}}$`);

/** 1 to 255 printable ASCII characters. */
export function isIdempotencyKey(text: string): boolean {
  return KEY.test(text);
}
