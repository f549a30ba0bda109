import { GatewayError, translateError } from '@cloche/kit';
import { isClocheError } from '@cloche/sdk';
import type { Logger } from 'pino';

/** Translates a failure of a request. E2B's clients must know of a sandbox that it is gone. */
export function e2bError(error: unknown, log: Logger): GatewayError {
  const isGone = (failure: unknown) => isClocheError(failure, 'sandbox_destroyed', 'sandbox_failed');
  return translateError(error, { log, client: 'an E2B client', isGone });
}

export const PAUSED = 'The sandbox is paused; connect to it first, or create it with autoResume.';

/** Translates a failure inside a sandbox, whose clients know of 502 that it does not run. */
export function boxError(error: unknown, log: Logger): GatewayError {
  return isClocheError(error, 'sandbox_paused') ? new GatewayError(502, PAUSED) : e2bError(error, log);
}
