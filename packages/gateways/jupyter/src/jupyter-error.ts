import { GatewayError, translateError } from '@cloche/kit';
import { isClocheError } from '@cloche/sdk';
import type { Logger } from 'pino';

/** Translates a failure of a request. */
export function jupyterError(error: unknown, log: Logger): GatewayError {
  return translateError(error, { log, client: 'a Jupyter client', isGone: isKernelGone });
}

/** Returns whether the error means that the kernel has ended, with its sandbox or without. */
export function isKernelGone(error: unknown): boolean {
  return (
    (error instanceof GatewayError && error.status === 404) ||
    isClocheError(error, 'sandbox_destroyed', 'sandbox_failed', 'not_found')
  );
}
