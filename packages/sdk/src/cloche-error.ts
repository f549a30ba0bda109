import type { ErrorDetails as DetailsInCatalogue, ErrorBody, ErrorCode } from '@cloche/contract';

/** What goes wrong on this side of the connection; every other code is the service's own. */
export type ClientErrorCode =
  /** No API key was given and `CLOCHE_API_KEY` is not set. */
  | 'missing_api_key'
  /** An option or an identifier cannot be sent as it is. */
  | 'invalid_options'
  /** No connection could be made, or it broke, as often as it was tried. */
  | 'unreachable'
  /** The call's whole time passed without an answer. */
  | 'deadline_exceeded'
  /** A stream ended before its `complete` event. */
  | 'stream_interrupted'
  /** The answer is not one that Cloche gives; often another server's. */
  | 'unexpected_response';

export type ClocheErrorCode = ErrorCode | ClientErrorCode;

/** The `details` of each code that has them. Every field may be missing: the service may be older or newer than this SDK. */
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
 * Every failure of the SDK but an abort, which rejects with the signal's reason. Match `code`, never `message`:
 *
 * ```ts
 * if (isClocheError(error, 'sandbox_ttl_exceeded')) console.log(error.details?.maxTtlMs);
 * ```
 */
export class ClocheError<Code extends ClocheErrorCode = ClocheErrorCode> extends Error {
  override readonly name = 'ClocheError';
  readonly code: Code;
  /** The HTTP status; absent where no answer came. */
  readonly status: number | undefined;
  /** Finds the request in the service's log. */
  readonly requestId: string | undefined;
  readonly details: DetailsOf<Code> | undefined;
  /** The key that the operation was sent with: repeat it to learn the outcome without doing it twice. */
  readonly idempotencyKey: string | undefined;
  /** When the service asked to be tried again, in milliseconds from the answer. */
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

/** Whether `error` came from the SDK, and with one of `codes` where any are named; narrows `code` and `details`. */
export function isClocheError<Code extends ClocheErrorCode = ClocheErrorCode>(
  error: unknown,
  ...codes: Code[]
): error is ClocheError<Code> {
  return error instanceof ClocheError && (codes.length === 0 || codes.some((code) => code === error.code));
}

/** The body of a failing response, if it is one that Cloche writes. A code newer than this SDK is kept as it is. */
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
