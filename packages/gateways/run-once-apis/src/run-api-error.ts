import { GatewayError, translateError } from '@cloche/kit';
import type { Logger } from 'pino';
import { z } from 'zod';

/** Translates a failure of a request, or of the validation of its body. Each API puts it into a body of its own form. */
export function runApiError(error: unknown, log: Logger): GatewayError {
  if (error instanceof z.ZodError) return new GatewayError(400, z.prettifyError(error));
  return translateError(error, { log, client: 'a run API' });
}
