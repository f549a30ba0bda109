import { FrontRefusal } from '@cloche/node-support';
import { isClocheError } from '@cloche/sdk';
import type { Logger } from 'pino';
import { z } from 'zod';

const MILLISECONDS = 1000;

/** A refusal: an HTTP status and a text, which each API puts into a body of its own form. */
export class RunApiError extends Error {
  readonly status: number;
  /** Seconds after which the request may be repeated. */
  readonly retryAfter: number | undefined;

  constructor(status: number, message: string, retryAfter?: number) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }

  /** Translates a failure of `/v1`, of the validation of a body, or of the HTTP parser. */
  static of(error: unknown, log: Logger): RunApiError {
    if (error instanceof RunApiError) return error;
    if (error instanceof FrontRefusal) {
      const { 'retry-after': seconds } = error.headers;
      return new RunApiError(error.status, error.message, seconds === undefined ? undefined : Number(seconds));
    }
    if (error instanceof z.ZodError) return new RunApiError(400, z.prettifyError(error));
    if (isClocheError(error)) {
      const { code, message, status = 503, retryAfterMs } = error;
      const retryAfter = retryAfterMs === undefined ? undefined : Math.ceil(retryAfterMs / MILLISECONDS);
      return new RunApiError(status, `${code}: ${message}`, retryAfter);
    }
    const { statusCode, message } = error as { statusCode?: number; message?: string };
    if (statusCode !== undefined && statusCode < 500) return new RunApiError(statusCode, message ?? 'invalid request');
    log.error({ err: error }, 'a request of a run API failed');
    return new RunApiError(500, 'The request failed; the log of the service says why.');
  }
}
