import { ERRORS, type ErrorBody, type ErrorCode, LIMITS, type RetryAfterCode } from '@cloche/contract';
import { AppError } from '../base/app-error.ts';

/** The response to a failed request. */
export interface ErrorResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: ErrorBody;
}

/** Seconds in `Retry-After` for errors that do not set their own. */
const RETRY_AFTER: Record<RetryAfterCode, number> = {
  unavailable: 5,
  rate_limited: 1,
  idempotency_request_in_progress: 1,
};

const FULL_DISK_RETRY_SECONDS = 30;

export const JSON_TYPE = 'application/json; charset=utf-8';

export function errorResponse(error: AppError, requestId: string): ErrorResponse {
  const { code, message, details } = error;
  const retryAfter = error.retryAfterSeconds ?? (isRetryAfter(code) ? RETRY_AFTER[code] : undefined);
  return {
    status: error.status,
    headers: {
      ...(retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) }),
      ...(error.is('range_not_satisfiable') ? { 'content-range': `bytes */${error.details?.sizeBytes ?? '*'}` } : {}),
      ...(code === 'unauthorized' ? { 'www-authenticate': 'Bearer' } : {}),
    },
    body: { error: { code, message, requestId, ...(details && { details }) } },
  };
}

function isRetryAfter(code: ErrorCode): code is RetryAfterCode {
  return ERRORS[code].retryable === 'after';
}

/** Converts `error` to an error for the client. An internal fault reveals nothing but that the service failed. */
export function toAppError(error: unknown): AppError {
  if (error instanceof AppError) return error;
  return (
    fromFastify(error) ??
    fromFullDisk(error) ??
    new AppError('internal', 'The service failed; its log has the cause under the request id.', { cause: error })
  );
}

/** SQLite's error code for a file that cannot grow. */
const SQLITE_FULL = 13;

function fromFullDisk(error: unknown): AppError | undefined {
  if (!(error instanceof Error)) return undefined;
  const isFull = ('code' in error && error.code === 'ENOSPC') || ('errcode' in error && error.errcode === SQLITE_FULL);
  if (!isFull) return undefined;
  return new AppError('unavailable', 'The disk of the service is full; try again later.', {
    cause: error,
    retryAfterSeconds: FULL_DISK_RETRY_SECONDS,
  });
}

/** Converts the framework's own errors to errors of the catalogue. */
function fromFastify(error: unknown): AppError | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new AppError(
        'payload_too_large',
        `The body is larger than the ${LIMITS.bodyBytes} bytes that a request may have.`,
      );
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new AppError('invalid_request', 'headers.content-length does not match the size of the body', {
        details: { issues: [{ path: 'headers.content-length', message: 'does not match the size of the body' }] },
      });
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new AppError('unsupported_media_type', 'Send the body as JSON, with Content-Type: application/json.');
    case 'FST_ERR_BAD_URL':
      return new AppError('invalid_request', 'path is not a valid URL path; encode it with percent escapes of UTF-8', {
        details: { issues: [{ path: 'path', message: 'is not a valid URL path' }] },
      });
    default:
      return undefined;
  }
}
