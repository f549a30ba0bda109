import { ERRORS, type ErrorCode, type ErrorDetails, type Issue } from '@cloche/contract';
import { FinalError } from '@cloche/node-support';

export interface AppErrorOptions<Code extends ErrorCode = ErrorCode> {
  details?: ErrorDetails<Code>;
  /** Seconds for the `Retry-After` header. */
  retryAfterSeconds?: number;
  cause?: unknown;
  /** Whether a limit that the client set caused the error. If so, the log does not report a fault of the service. */
  isClientsBound?: boolean;
}

/**
 * The only error class that is shown to clients. The message names the invalid field and the remedy, and reveals
 * nothing internal.
 */
export class AppError<Code extends ErrorCode = ErrorCode> extends FinalError {
  override readonly name = 'AppError';
  readonly code: Code;
  readonly details: ErrorDetails<Code> | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly isClientsBound: boolean;

  constructor(code: Code, message: string, options: AppErrorOptions<Code> = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.details = options.details;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.isClientsBound = options.isClientsBound ?? false;
  }

  get status(): number {
    return ERRORS[this.code].status;
  }

  /** Whether the error has this code; narrows `details`. */
  is<Wanted extends Code>(code: Wanted): this is AppError<Wanted> {
    return this.code === code;
  }
}

/** Limits the length of the answer, however many issues there are and however long their paths are. */
const ISSUES_SHOWN = 20;
const ISSUE_PATH_LENGTH = 200;

/**
 * Returns an `invalid_request` error with these issues. A `path` is dotted and begins with the part of the request, for
 * example `body.ttlMs` or `query.status`.
 */
export function invalidRequest(...all: [Issue, ...Issue[]]): AppError<'invalid_request'> {
  const issues = all.slice(0, ISSUES_SHOWN).map(({ path, message }) => ({ path: shortened(path), message }));
  const message = issues.map(({ path, message: text }) => `${path} ${text}`).join('; ');
  return new AppError('invalid_request', message, { details: { issues } });
}

function shortened(path: string): string {
  return path.length > ISSUE_PATH_LENGTH ? `${path.slice(0, ISSUE_PATH_LENGTH).toWellFormed()}…` : path;
}

/** Returns the error for a request that the client may repeat soon. */
export function unavailable(message: string, cause?: unknown): AppError<'unavailable'> {
  return new AppError('unavailable', message, { cause, retryAfterSeconds: 1 });
}

/** Returns the same message for a missing object and for one of another organization, so that it reveals neither. */
export function notFound(what: string, id: string): AppError<'not_found'> {
  const message = `There is no ${what} "${id.slice(0, 80)}" that this key can see.`;
  return new AppError('not_found', message, { details: { resource: what } });
}
