import { ClocheError } from './cloche-error.ts';
import type { Deadline } from './deadline.ts';
import type { PreparedRequest } from './request.ts';

/** Returns the error of a request that did not reach the service. */
export function unreachable(url: string, { idempotencyKey }: PreparedRequest, cause: unknown): ClocheError {
  const { code, message } = (cause as { cause?: { code?: string; message?: string } } | undefined)?.cause ?? {};
  const why = code ?? message ?? (cause instanceof Error ? cause.message : String(cause));
  return new ClocheError(
    'unreachable',
    `Cloche cannot be reached at ${url} (${why}); see that it runs there, or set CLOCHE_URL to where it does.`,
    { cause, idempotencyKey },
  );
}

/** Returns the error for the caller: the signal's reason after an abort, `deadline_exceeded` after the deadline. */
export function outcomeOf(
  error: unknown,
  { operation, idempotencyKey, timeoutMs }: PreparedRequest,
  deadline: Deadline,
  signal: AbortSignal | undefined,
): unknown {
  if (signal?.aborted) return signal.reason;
  if (!deadline.passed || error instanceof ClocheError) return error;
  const message = `${operation.id} had no answer within ${timeoutMs} ms; it may have been done all the same.`;
  return new ClocheError('deadline_exceeded', message, { cause: error, idempotencyKey });
}
