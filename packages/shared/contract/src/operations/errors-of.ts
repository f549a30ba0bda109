import type { ErrorCode } from '../errors.ts';
import type { Operation } from '../operation.ts';
import { wakes } from './while-paused.ts';

/** Errors that every authenticated operation can return. */
export const COMMON_ERRORS = [
  'invalid_request',
  'unauthorized',
  'forbidden',
  'not_found',
  'method_not_allowed',
  'rate_limited',
  'internal',
  'unavailable',
] as const satisfies readonly ErrorCode[];
/** Errors of operations with a body. */
export const BODY_ERRORS = ['payload_too_large', 'unsupported_media_type'] as const satisfies readonly ErrorCode[];
export const IDEMPOTENCY_ERRORS = [
  'idempotency_request_in_progress',
  'idempotency_key_reused',
  'quota_exceeded',
] as const satisfies readonly ErrorCode[];

/** Errors of operations that wake a paused sandbox. */
export const WAKE_ERRORS = ['sandbox_paused', 'quota_exceeded'] as const satisfies readonly ErrorCode[];

/** Returns every error code of `operation`, its own first. */
export function errorsOf(operation: Operation): ErrorCode[] {
  return [
    ...new Set([
      ...operation.errors,
      ...COMMON_ERRORS,
      ...(operation.body || operation.upload ? BODY_ERRORS : []),
      ...(operation.idempotency === 'none' ? [] : IDEMPOTENCY_ERRORS),
      ...(wakes(operation) ? WAKE_ERRORS : []),
    ]),
  ];
}
