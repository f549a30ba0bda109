import { FrontRefusal } from '@cloche/node-support';
import { type ClocheError, isClocheError } from '@cloche/sdk';
import type { Logger } from 'pino';

/** Codes after which E2B's clients must know that the sandbox is gone. */
const GONE: ReadonlySet<string> = new Set(['sandbox_destroyed', 'sandbox_failed']);
const MILLISECONDS = 1000;

/** An answer to one of E2B's clients: an HTTP status and a text, as they expect it. */
export class E2bError extends Error {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.status = status;
    this.headers = headers;
  }

  /** Translates a failure of `/v1`, or one that the app found in the request. */
  static of(error: unknown, log: Logger): E2bError {
    if (error instanceof E2bError) return error;
    if (error instanceof FrontRefusal) return new E2bError(error.status, error.message, error.headers);
    if (isClocheError(error))
      return new E2bError(statusOf(error), `${error.code}: ${error.message}`, retryAfter(error));
    const { statusCode, message } = error as { statusCode?: number; message?: string };
    if (statusCode !== undefined && statusCode < 500) return new E2bError(statusCode, message ?? 'invalid request');
    log.error({ err: error }, 'a request of an E2B client failed');
    return new E2bError(500, 'internal: the request failed; the log of the service says why.');
  }
}

function statusOf({ code, status }: ClocheError): number {
  if (GONE.has(code)) return 404;
  // An identifier that the own client does not send, such as "..".
  if (code === 'invalid_options') return 400;
  return status ?? 503;
}

/** Returns the header that says how long to wait. E2B's clients read whole seconds. */
export function retryAfter({ retryAfterMs }: ClocheError): Record<string, string> {
  return retryAfterMs === undefined ? {} : { 'retry-after': String(Math.ceil(retryAfterMs / MILLISECONDS)) };
}
