/** The only file that loads OpenTelemetry. It is loaded only if a collector is configured. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { RemotePart } from '@cloche/runtime/tracing';
import { type Context, type Span as OtelSpan, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { type ExportResult, ExportResultCode, W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type Sampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { Logger } from 'pino';
import { remoteSpans } from './remote-spans.ts';
import type { RequestStart, Span, SpanAttributes, Tracing } from './tracing.ts';
import type { TracingSettings } from './tracing-settings.ts';

/** Longest time that the end of the server waits for the collector. */
const CLOSE_MS = 2_000;
/** Longest value of an attribute. */
const MAX_VALUE_CHARACTERS = 256;

const KINDS = { internal: SpanKind.INTERNAL, client: SpanKind.CLIENT };
const propagator = new W3CTraceContextPropagator();

/** Exports spans to the collector that the standard variables name. A collector that fails costs only its spans. */
export class OtelTracing implements Tracing {
  readonly #active = new AsyncLocalStorage<TracedWork>();
  readonly #processor: BatchSpanProcessor;
  readonly #providers: Readonly<Record<'server' | RemotePart, TracerProvider>>;

  constructor(settings: TracingSettings, version: string, log: Logger) {
    const exporter = settings.protocol === 'http/json' ? new JsonExporter() : new ProtobufExporter();
    this.#processor = new BatchSpanProcessor({ ...settings, exporter: reporting(exporter, log) });
    const ofPart = (part: string, sampler: Sampler) =>
      openProvider(part, { version, sampler, processor: this.#processor });
    // The decision to sample the request's span also applies to the spans of other parts.
    const parent = new ParentBasedSampler({ root: new AlwaysOffSampler() });
    this.#providers = {
      server: ofPart('server', samplerOf(settings)),
      host: ofPart('host', parent),
      agent: ofPart('agent', parent),
    };
  }

  startRequest({ name, elapsedMs, traceparent, tracestate }: RequestStart): Span | undefined {
    const carrier = { traceparent, tracestate };
    const caller = propagator.extract(ROOT_CONTEXT, carrier, {
      get: (_, key) => carrier[key as 'traceparent'],
      keys: () => [],
    });
    return this.#start('server', { name, kind: SpanKind.SERVER, startMs: now() - elapsedMs }, caller);
  }

  within<T>(span: Span, act: () => T): T {
    // Sound: every `Span` is made by this class.
    return this.#active.run(span as TracedWork, act);
  }

  startChild(name: string, kind: 'internal' | 'client' = 'internal'): Span | undefined {
    const parent = this.#active.getStore();
    return parent && this.#start('server', { name, kind: KINDS[kind], startMs: now() }, parent.context);
  }

  async close(): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, CLOSE_MS);
    // A collector that does not answer is no failure of the server.
    await Promise.race([this.#processor.shutdown().catch(() => undefined), late]);
    clearTimeout(timer);
  }

  #start(part: 'server' | RemotePart, { name, kind, startMs }: Start, parent: Context): TracedWork | undefined {
    const span = this.#providers[part].getTracer('cloche').startSpan(name, { kind, startTime: startMs }, parent);
    return span.isRecording() ? new TracedWork(span, parent, startMs, this.#addRemote) : undefined;
  }

  readonly #addRemote: AddRemote = (work, part, name, timings) => {
    const [whole, ...steps] = remoteSpans(part, timings, { startMs: work.startMs, endMs: now() });
    if (!whole) return;
    const span = this.#start(part, { name, kind: SpanKind.SERVER, startMs: whole.startMs }, work.context);
    if (!span) return;
    for (const { name, startMs, endMs } of steps) {
      this.#start(part, { name, kind: SpanKind.INTERNAL, startMs }, span.context)?.endAt(endMs);
    }
    span.endAt(whole.endMs);
  };
}

interface Start {
  readonly name: string;
  readonly kind: SpanKind;
  readonly startMs: number;
}

type AddRemote = (work: TracedWork, part: RemotePart, name: string, timings: unknown) => void;

class TracedWork implements Span {
  readonly context: Context;
  readonly startMs: number;
  readonly #span: OtelSpan;
  readonly #addRemote: AddRemote;

  constructor(span: OtelSpan, parent: Context, startMs: number, addRemote: AddRemote) {
    this.#span = span;
    this.context = trace.setSpan(parent, span);
    this.startMs = startMs;
    this.#addRemote = addRemote;
  }

  get traceId(): string {
    return this.#span.spanContext().traceId;
  }

  get traceparent(): string {
    const { traceId, spanId } = this.#span.spanContext();
    return `00-${traceId}-${spanId}-01`;
  }

  setAttributes(attributes: SpanAttributes): void {
    for (const [name, value] of Object.entries(attributes))
      if (value !== undefined) this.#span.setAttribute(name, value);
  }

  addRemoteWork(part: RemotePart, name: string, timings: unknown): void {
    this.#addRemote(this, part, name, timings);
  }

  end(errorType?: string): void {
    if (errorType !== undefined)
      this.#span.setAttribute('error.type', errorType).setStatus({ code: SpanStatusCode.ERROR });
    this.endAt(now());
  }

  endAt(ms: number): void {
    this.#span.end(ms);
  }
}

/** Milliseconds since 1970, with fractions. All times of a trace are of this clock. */
function now(): number {
  return performance.timeOrigin + performance.now();
}

function openProvider(
  part: string,
  { version, sampler, processor }: { version: string; sampler: Sampler; processor: BatchSpanProcessor },
): TracerProvider {
  const environment = detectResources({ detectors: [envDetector] });
  const own = resourceFromAttributes({ 'service.name': `cloche-${part}`, 'service.version': version });
  // `OTEL_SERVICE_NAME` names the server. The other parts keep their names, so that a trace tells them apart.
  const resource = part === 'server' ? own.merge(environment) : environment.merge(own);
  const spanLimits = { attributeValueLengthLimit: MAX_VALUE_CHARACTERS };
  return new TracerProvider({ resource, sampler, spanLimits, spanProcessors: [processor] });
}

function samplerOf({ sampler, ratio }: TracingSettings): Sampler {
  switch (sampler) {
    case 'always_on':
      return new AlwaysOnSampler();
    case 'always_off':
      return new AlwaysOffSampler();
    case 'traceidratio':
      return new TraceIdRatioBasedSampler(ratio);
    case 'parentbased_always_on':
      return new ParentBasedSampler({ root: new AlwaysOnSampler() });
    case 'parentbased_always_off':
      return new ParentBasedSampler({ root: new AlwaysOffSampler() });
    case 'parentbased_traceidratio':
      return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) });
  }
}

/** Logs the first of several failed exports, and the first success after them. */
function reporting(exporter: SpanExporter, log: Logger): SpanExporter {
  let isFailing = false;
  const note = ({ code, error }: ExportResult) => {
    const fails = code !== ExportResultCode.SUCCESS;
    if (fails && !isFailing)
      log.warn({ reason: error?.message }, 'traces are dropped: the collector does not take them');
    if (!fails && isFailing) log.info('the collector takes traces again');
    isFailing = fails;
  };
  return {
    export(spans: ReadableSpan[], done) {
      exporter.export(spans, (result) => {
        note(result);
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: async () => exporter.forceFlush?.(),
  };
}
