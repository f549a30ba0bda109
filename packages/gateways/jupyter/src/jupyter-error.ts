import { FrontRefusal } from '@cloche/node-support';
import { isClocheError } from '@cloche/sdk';
import type { Logger } from 'pino';

const MILLISECONDS = 1000;

/** An answer to a Jupyter client that is not what it asked for: an HTTP status and a text. */
export class JupyterError extends Error {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.status = status;
    this.headers = headers;
  }

  /** Translates a failure of `/v1`, or one that the app found in the request. */
  static of(error: unknown, log: Logger): JupyterError {
    if (error instanceof JupyterError) return error;
    if (error instanceof FrontRefusal) return new JupyterError(error.status, error.message, error.headers);
    if (isClocheError(error)) {
      const status = isKernelGone(error) ? 404 : (error.status ?? 503);
      const seconds = Math.ceil((error.retryAfterMs ?? 0) / MILLISECONDS);
      const headers = error.retryAfterMs === undefined ? {} : { 'retry-after': String(seconds) };
      return new JupyterError(status, `${error.code}: ${error.message}`, headers);
    }
    const { statusCode, message } = error as { statusCode?: number; message?: string };
    if (statusCode !== undefined && statusCode < 500) return new JupyterError(statusCode, message ?? 'invalid request');
    log.error({ err: error }, 'a request of a Jupyter client failed');
    return new JupyterError(500, 'internal: the request failed; the log of the service says why.');
  }
}

/** Returns whether the error means that the kernel has ended, with its sandbox or without. */
export function isKernelGone(error: unknown): boolean {
  return (
    (error instanceof JupyterError && error.status === 404) ||
    isClocheError(error, 'sandbox_destroyed', 'sandbox_failed', 'not_found')
  );
}
