import type { ErrorDetails as DetailsInCatalogue, ErrorBody, ErrorCode } from '@cloche/contract';

/** Failures on the client's side. Every other code comes from the service. */
export type ClientErrorCode =
  /** No API key was given and `CLOCHE_API_KEY` is not set. */
  | 'missing_api_key'
  /** An option or an identifier is invalid and cannot be sent. */
  | 'invalid_options'
  /**
   * A directory cannot be packed: it has a file that cannot be read, a link that leads out of it, or too many entries.
   */
  | 'packing_failed'
  /** All attempts failed to connect, or the connection broke. */
  | 'unreachable'
  /** The call's time limit passed without a response. */
  | 'deadline_exceeded'
  /** A stream ended before its `complete` event. */
  | 'stream_interrupted'
  /** The response is not one of Cloche's; often it comes from another server. */
  | 'unexpected_response';

export type ClocheErrorCode = ErrorCode | ClientErrorCode;

/** Types of `details`, by code. Every field may be missing, because the service may be older or newer than this SDK. */
export type ErrorDetails = {
  [Code in ErrorCode as DetailsInCatalogue<Code> extends undefined ? never : Code]: Partial<DetailsInCatalogue<Code>>;
};
type DetailsOf<Code extends ClocheErrorCode> = Code extends keyof ErrorDetails
  ? ErrorDetails[Code]
  : Record<string, unknown>;

export interface ClocheErrorOptions<Code extends ClocheErrorCode> {
  status?: number | undefined;
  requestId?: string | undefined;
  details?: DetailsOf<Code> | undefined;
  idempotencyKey?: string | undefined;
  retryAfterMs?: number | undefined;
  cause?: unknown;
}

/**
 * Every failure of the SDK except an abort, which rejects with the signal's reason. Match `code`, never `message`:
 *
 * ```ts
 * if (isClocheError(error, 'sandbox_ttl_exceeded')) console.log(error.details?.maxTtlMs);
 * ```
 */
export class ClocheError<Code extends ClocheErrorCode = ClocheErrorCode> extends Error {
  override readonly name = 'ClocheError';
  readonly code: Code;
  /** HTTP status; undefined if there was no response. */
  readonly status: number | undefined;
  /** Identifies the request in the service's log. */
  readonly requestId: string | undefined;
  readonly details: DetailsOf<Code> | undefined;
  /** Idempotency-Key of the operation. Repeat the operation with it to learn the outcome without executing it twice. */
  readonly idempotencyKey: string | undefined;
  /** When to retry, as requested by the service, in milliseconds after the response. */
  readonly retryAfterMs: number | undefined;

  constructor(code: Code, message: string, options: ClocheErrorOptions<Code> = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.status = options.status;
    this.requestId = options.requestId;
    this.details = options.details;
    this.idempotencyKey = options.idempotencyKey;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/**
 * Returns whether `error` is a `ClocheError` with one of `codes`, or with any code if none is given. Narrows `code` and
 * `details`.
 */
export function isClocheError<Code extends ClocheErrorCode = ClocheErrorCode>(
  error: unknown,
  ...codes: Code[]
): error is ClocheError<Code> {
  return error instanceof ClocheError && (codes.length === 0 || codes.some((code) => code === error.code));
}

/** Parses an error response; undefined if it is not one of Cloche's. A code that this SDK does not know is kept. */
export function readErrorBody(body: unknown): ErrorBody['error'] | undefined {
  if (!isRecord(body) || !isRecord(body.error)) return undefined;
  const { code, message, requestId, details } = body.error;
  if (typeof code !== 'string' || typeof message !== 'string') return undefined;
  return {
    code: code as ErrorCode,
    message,
    requestId: typeof requestId === 'string' ? requestId : '',
    ...(isRecord(details) ? { details } : {}),
  };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
