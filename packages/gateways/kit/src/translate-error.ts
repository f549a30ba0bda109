import { type ClocheError, isClocheError } from '@cloche/sdk';
import type { Logger } from 'pino';
import { GatewayError } from './gateway-error.ts';

const MILLISECONDS = 1000;

export interface Translation {
  readonly log: Logger;
  /** The client, for the log: `an E2B client`. */
  readonly client: string;
  /** Returns whether a failure of `/v1` means that what the client named has ended, which is answered with 404. */
  readonly isGone?: (error: ClocheError) => boolean;
}

/** Translates a failure of `/v1`, or one that the app found in the request. */
export function translateError(error: unknown, { log, client, isGone }: Translation): GatewayError {
  if (error instanceof GatewayError) return error;
  if (isClocheError(error)) {
    const status = isGone?.(error) ? 404 : statusOf(error);
    return new GatewayError(status, `${error.code}: ${error.message}`, retryAfter(error));
  }
  const { statusCode, message } = error as { statusCode?: number; message?: string };
  if (statusCode !== undefined && statusCode < 500) return new GatewayError(statusCode, message ?? 'invalid request');
  log.error({ err: error }, `a request of ${client} failed`);
  return new GatewayError(500, 'internal: the request failed; the log of the service says why.');
}

/** Returns the header that says how long to wait, in whole seconds. */
export function retryAfter({ retryAfterMs }: ClocheError): Record<string, string> {
  return retryAfterMs === undefined ? {} : { 'retry-after': String(Math.ceil(retryAfterMs / MILLISECONDS)) };
}

function statusOf({ code, status }: ClocheError): number {
  // An identifier that the SDK does not send, such as "..".
  return code === 'invalid_options' ? 400 : (status ?? 503);
}
