/** A collector of traces: an HTTP server that takes OTLP in JSON, as a real one does. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface CollectedSpan {
  readonly service: string;
  readonly name: string;
  readonly kind: 'internal' | 'server' | 'client';
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly startMs: number;
  readonly endMs: number;
  readonly isError: boolean;
  readonly attributes: Readonly<Record<string, unknown>>;
}

export interface TraceCollector extends AsyncDisposable {
  readonly url: string;
  readonly spans: readonly CollectedSpan[];
  /** All bodies, as they arrived. */
  readonly bodies: readonly string[];
  readonly requests: readonly IncomingMessage[];
  /** Leaves requests from now on without an answer, until `answer` is called. */
  hold(): void;
  /** Answers what is held, and all later requests, with this status. */
  answer(status?: number): void;
}

export async function openTraceCollector(): Promise<TraceCollector> {
  const spans: CollectedSpan[] = [];
  const bodies: string[] = [];
  const requests: IncomingMessage[] = [];
  let held: ServerResponse[] | undefined;
  let status = 200;
  const end = (response: ServerResponse) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
  const server = createServer(async (request, response) => {
    requests.push(request);
    const body = await text(request);
    bodies.push(body);
    if (request.headers['content-type'] === 'application/json') spans.push(...spansOf(JSON.parse(body)));
    if (held) held.push(response);
    else end(response);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    bodies,
    requests,
    hold() {
      held ??= [];
    },
    answer(next = 200) {
      status = next;
      held?.splice(0).forEach(end);
      held = undefined;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

interface Attribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

interface OtlpSpan {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly status: { readonly code?: number };
  readonly attributes: readonly Attribute[];
}

interface OtlpTraces {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[];
  }[];
}

const KINDS = [undefined, 'internal', 'server', 'client'] as const;
const ERROR = 2;

function spansOf({ resourceSpans }: OtlpTraces): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = String(valuesOf(resource.attributes)['service.name']);
    return scopeSpans.flatMap(({ spans }) => spans.map((span) => collected(service, span)));
  });
}

function collected(service: string, span: OtlpSpan): CollectedSpan {
  const kind = KINDS[span.kind];
  if (!kind) throw new Error(`a span of kind ${span.kind}`);
  return {
    service,
    name: span.name,
    kind,
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentSpanId || undefined,
    startMs: Number(span.startTimeUnixNano) / 1e6,
    endMs: Number(span.endTimeUnixNano) / 1e6,
    isError: span.status.code === ERROR,
    attributes: valuesOf(span.attributes),
  };
}

function valuesOf(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
