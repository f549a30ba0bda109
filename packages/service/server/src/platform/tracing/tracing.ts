/** Traces of requests. Without a collector there is no `Tracing`, and nothing is measured. */

import { errorTypeOf, type RequestSpan } from '@cloche/runtime/tracing';

export type SpanAttributes = Readonly<Record<string, string | number | undefined>>;

/** Work that is measured. Its attributes are ids, names of operations and codes: never content, paths or secrets. */
export interface Span extends RequestSpan {
  readonly traceId: string;
  setAttributes(attributes: SpanAttributes): void;
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
