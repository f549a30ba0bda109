/** Traces of requests to a host and to agents. */
import { TIMINGS_HEADER } from '@cloche/protocol';

/** A process that exports no spans. The server exports the spans of its work. */
export type RemotePart = 'host' | 'agent';

/** The trace span of one request to a host or an agent. */
export interface RequestSpan {
  /** Continues the trace in another part, in the form of the W3C header. */
  readonly traceparent: string;
  /**
   * Adds the work of the host or the agent as a child span with its steps. Its times are shifted into this span, because
   * its clock may differ and its times may be wrong. Call it before `end`.
   *
   * @param timings text with timings (`parseTimings`), which may be hostile
   */
  addRemoteWork(part: RemotePart, name: string, timings: unknown): void;
  /** @param errorType code of the error that ended the work */
  end(errorType?: string): void;
}

export interface RequestTracing {
  /** Starts a child of the span that the code runs in. Returns undefined outside of a traced request. */
  startChild(name: string, kind: 'client'): RequestSpan | undefined;
}

/** Sends a request to a host or an agent within a child span, and adds the work that its response reports. */
export async function tracedRequest<T extends { readonly headers: Readonly<Record<string, unknown>> }>(
  tracing: RequestTracing | undefined,
  part: RemotePart,
  name: string,
  send: (span: RequestSpan | undefined) => Promise<T>,
): Promise<T> {
  const span = tracing?.startChild(`${part} ${name}`, 'client');
  if (!span) return send(undefined);
  let errorType: string | undefined;
  try {
    const response = await send(span);
    span.addRemoteWork(part, name, response.headers[TIMINGS_HEADER]);
    return response;
  } catch (error) {
    errorType = errorTypeOf(error);
    throw error;
  } finally {
    span.end(errorType);
  }
}

/** Returns a code of the error. Messages may repeat what a client sent, so they are left out. */
export function errorTypeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  const { code, kind } = error as { code?: unknown; kind?: unknown };
  return [code, kind, error.name].find((each): each is string => typeof each === 'string') ?? 'unknown';
}
