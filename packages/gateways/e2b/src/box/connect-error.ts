import type { Socket } from 'node:net';
import { GatewayError, retryAfter } from '@cloche/kit';
import { type ClocheError, isClocheError } from '@cloche/sdk';
import { Code, ConnectError, createContextKey, type HandlerContext } from '@connectrpc/connect';
import { isGone } from './box-session.ts';

const CODES: Readonly<Record<string, Code>> = {
  invalid_request: Code.InvalidArgument,
  unauthorized: Code.Unauthenticated,
  forbidden: Code.PermissionDenied,
  permission_denied: Code.PermissionDenied,
  not_found: Code.NotFound,
  conflict: Code.AlreadyExists,
  precondition_failed: Code.FailedPrecondition,
  quota_exceeded: Code.ResourceExhausted,
  rate_limited: Code.ResourceExhausted,
  deadline_exceeded: Code.DeadlineExceeded,
  sandbox_paused: Code.Unavailable,
};

const RPC_CODES: Readonly<Record<number, string>> = {
  400: 'invalid_argument',
  401: 'unauthenticated',
  403: 'permission_denied',
  413: 'resource_exhausted',
  429: 'resource_exhausted',
};

/** Translates a failure of `/v1` to a code of Connect. A sandbox that is gone is `unavailable`. */
export function connectError(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  if (error instanceof GatewayError) return new ConnectError(error.message, Code.Unauthenticated);
  if (isGone(error)) return new ConnectError('The sandbox was not found: it has ended.', Code.Unavailable);
  if (isClocheError(error)) return new ConnectError(error.message, codeOf(error), retryAfter(error));
  return ConnectError.from(error, Code.Internal);
}

function codeOf({ code, status = 503 }: ClocheError): Code {
  return CODES[code] ?? (status >= 500 ? Code.Unavailable : Code.InvalidArgument);
}

/** Answers a call, with its failures as codes of Connect. */
export function answering<Request, Context, Response>(
  answer: (request: Request, context: Context) => Promise<Response>,
): (request: Request, context: Context) => Promise<Response> {
  return (request, context) =>
    answer(request, context).catch((error: unknown) => {
      throw connectError(error);
    });
}

/** The connection of a call. */
export const CONNECTION = createContextKey<Socket | undefined>(undefined);
/** Aborts with the connection of a call. The signal of Connect aborts when the implementation returns. */
export const CALL_SIGNAL = createContextKey<AbortSignal | undefined>(undefined);

/**
 * Like `answering`, for a call that answers with a stream. If the sandbox ends after the first message, it breaks the
 * connection: only then do E2B's clients look whether the sandbox was killed, and say so.
 */
export function streaming<Request, Context extends Pick<HandlerContext, 'values'>, Message>(
  answer: (request: Request, context: Context) => AsyncIterable<Message>,
): (request: Request, context: Context) => AsyncIterable<Message> {
  return async function* (request, context) {
    let hasBegun = false;
    try {
      for await (const message of answer(request, context)) {
        hasBegun = true;
        yield message;
      }
    } catch (error) {
      if (hasBegun && isGone(error)) breakOff(context.values.get(CONNECTION));
      throw connectError(error);
    }
  };
}

/**
 * Resets a connection. E2B's clients for Python take a connection that is closed in the middle of a response for a
 * response that they cannot read, and then do not look whether the sandbox was killed.
 */
function breakOff(connection: Socket | undefined): void {
  try {
    connection?.resetAndDestroy();
  } catch {
    // Only TCP has resets: the connection is one of TLS, or a Unix socket.
    connection?.destroy();
  }
}

/** Returns the name of the code of a refusal that has an HTTP status. */
export function rpcCodeOf(status: number): string {
  return RPC_CODES[status] ?? 'unavailable';
}
