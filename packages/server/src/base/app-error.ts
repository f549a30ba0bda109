import { ERRORS, type ErrorCode, type ErrorDetails, type Issue } from '@cloche/contract';

export interface AppErrorOptions<Code extends ErrorCode = ErrorCode> {
  details?: ErrorDetails<Code>;
  /** Seconds, sent as `Retry-After`. */
  retryAfterSeconds?: number;
  cause?: unknown;
  /** Whether a bound that the client set itself is the cause: the log then has no fault of the service. */
  isClientsBound?: boolean;
}

/** The one error that reaches a client. Its message says which field is wrong and what to do; nothing internal. */
export class AppError<Code extends ErrorCode = ErrorCode> extends Error {
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

/** However much is wrong, and however long the names of it are, the answer stays short. */
const ISSUES_SHOWN = 20;
const ISSUE_PATH_LENGTH = 200;

/** `invalid_request` with its issues; `path` is dotted from the part of the request: `body.ttlMs`, `query.status`. */
export function invalidRequest(...all: [Issue, ...Issue[]]): AppError<'invalid_request'> {
  const issues = all.slice(0, ISSUES_SHOWN).map(({ path, message }) => ({ path: shortened(path), message }));
  const message = issues.map(({ path, message: text }) => `${path} ${text}`).join('; ');
  return new AppError('invalid_request', message, { details: { issues } });
}

function shortened(path: string): string {
  return path.length > ISSUE_PATH_LENGTH ? `${path.slice(0, ISSUE_PATH_LENGTH).toWellFormed()}…` : path;
}

/** The answer to a client that may send the same request again soon. */
export function unavailable(message: string, cause?: unknown): AppError<'unavailable'> {
  return new AppError('unavailable', message, { cause, retryAfterSeconds: 1 });
}

/** The same words for what does not exist and what another organization owns. */
export function notFound(what: string, id: string): AppError<'not_found'> {
  return new AppError('not_found', `There is no ${what} "${id.slice(0, 80)}" that this key can see.`);
}
