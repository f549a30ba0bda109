import type { FastifyReply, FastifyRequest, preHandlerHookHandler } from 'fastify';
import type { Tracing } from '../tracing/tracing.ts';

/**
 * Returns a hook that starts the span of an authenticated request, so that clients without a key create no spans. The
 * span ends with the response (`endSpan`).
 */
export function traceRequests(tracing: Tracing): preHandlerHookHandler {
  return (request, reply, done) => {
    const { operation, credential } = request.state;
    const span = operation && tracing.startRequest(startOf(request, reply, `${operation.method} ${operation.path}`));
    if (!operation || !span) return done();
    request.state.span = span;
    span.setAttributes({
      'http.request.method': operation.method,
      'http.route': operation.path,
      'cloche.operation': operation.id,
      'cloche.request_id': request.id,
      'cloche.org_id': credential?.orgId,
      'cloche.sandbox_id': (request.params as { sandboxId?: string }).sandboxId,
    });
    tracing.within(span, done);
  };
}

export function endSpan({ state: { span, errorCode } }: FastifyRequest, { statusCode }: FastifyReply): void {
  if (!span) return;
  span.setAttributes({ 'http.response.status_code': statusCode, 'cloche.error_code': errorCode });
  // By the conventions of OpenTelemetry, a refusal is no error of the server.
  span.end(statusCode >= 500 ? (errorCode ?? String(statusCode)) : undefined);
}

function startOf({ headers }: FastifyRequest, { elapsedTime }: FastifyReply, name: string) {
  const single = (header: string | string[] | undefined) => (Array.isArray(header) ? undefined : header);
  return {
    name,
    elapsedMs: elapsedTime,
    traceparent: single(headers.traceparent),
    tracestate: single(headers.tracestate),
  };
}
