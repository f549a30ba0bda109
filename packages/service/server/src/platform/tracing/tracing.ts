/** Traces of requests. Without a collector there is no `Tracing`, and nothing is measured. */

import { TIMINGS_HEADER } from '@cloche/protocol';

/** A part that exports no spans itself, so the server exports spans about its work. */
export type RemotePart = 'host' | 'agent';

export type SpanAttributes = Readonly<Record<string, string | number | undefined>>;

/** Work that is measured. Its attributes are ids, names of operations and codes: never content, paths or secrets. */
export interface Span {
  readonly traceId: string;
  /** Continues the trace in another part, in the form of the W3C header. */
  readonly traceparent: string;
  setAttributes(attributes: SpanAttributes): void;
  /**
   * Adds the work of another part as a span of that part, with its steps. The times are moved into this span, because
   * the part may have another clock or report wrong times. Call it before `end`.
   *
   * @param timings text with timings (`parseTimings`), which may be hostile
   */
  addRemoteWork(part: RemotePart, name: string, timings: unknown): void;
  /** @param errorType code of the error that ended the work */
  end(errorType?: string): void;
}

export interface RequestStart {
  readonly name: string;
  /** Milliseconds since the request arrived. */
  readonly elapsedMs: number;
  /** The caller's W3C headers, which may be malformed. */
  readonly traceparent: string | undefined;
  readonly tracestate: string | undefined;
}

export interface Tracing {
  /** Starts the span of a client's request. Returns undefined if the sampler leaves the request out. */
  startRequest(start: RequestStart): Span | undefined;
  /** Calls `act`; spans that it starts, also later, are children of `span`. */
  within<T>(span: Span, act: () => T): T;
  /** Starts a child of the span that the code runs in. Returns undefined outside of a traced request. */
  startChild(name: string, kind?: 'internal' | 'client'): Span | undefined;
  /** Exports the remaining spans, for at most two seconds. */
  close(): Promise<void>;
}

/** Measures `act` as a child of the span that the code runs in. */
export async function traced<T>(tracing: Tracing | undefined, name: string, act: () => Promise<T>): Promise<T> {
  const span = tracing?.startChild(name);
  if (!tracing || !span) return act();
  let errorType: string | undefined;
  try {
    return await tracing.within(span, act);
  } catch (error) {
    errorType = errorTypeOf(error);
    throw error;
  } finally {
    span.end(errorType);
  }
}

/** Measures a request to another part as a child of the span that the code runs in, and the work of that part. */
export async function tracedRequest<T extends { readonly headers: Readonly<Record<string, unknown>> }>(
  tracing: Tracing | undefined,
  part: RemotePart,
  name: string,
  send: (span: Span | undefined) => Promise<T>,
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
