/** Traces over server, hostd and agent, read by a collector that takes OTLP as a real one does. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import {
  type CollectedSpan,
  openTraceCollector,
  type TraceCollector,
} from '../../packages/service/server/testing/trace-collector.ts';
import { type TestService, testService } from '../support/service.ts';

/** Occurs in all that a client sends, and must not occur in what the collector gets. */
const MARK = `mark${randomBytes(8).toString('hex')}`;

let collector: TraceCollector;
let service: TestService;
before(async () => {
  collector = await openTraceCollector();
  service = await testService({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_BSP_SCHEDULE_DELAY: '50',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
  });
});
after(async () => {
  await service?.close();
  await collector?.[Symbol.asyncDispose]();
});

interface Caller {
  readonly traceId: string;
  readonly spanId: string;
  readonly headers: { readonly traceparent: string };
}

function caller(flags = '01'): Caller {
  const [traceId, spanId] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  return { traceId, spanId, headers: { traceparent: `00-${traceId}-${spanId}-${flags}` } };
}

/** Resolves with the spans of a trace when they hold one for each of these names. */
async function spansOf({ traceId }: Caller, ...names: readonly string[]): Promise<CollectedSpan[]> {
  const received = () => collector.spans.filter((span) => span.traceId === traceId);
  const missing = () => names.filter((name) => !received().some((span) => nameOf(span) === name));
  await eventually(() => missing().length === 0, { because: `spans arrive: ${names}` });
  return received();
}

const nameOf = ({ service: part, name }: CollectedSpan) => `${part}: ${name}`;

/** Returns the names from a span up to the caller's. */
function pathOf(spans: readonly CollectedSpan[], from: string, { spanId }: Caller): string[] {
  const path: string[] = [];
  let at = spans.find((span) => nameOf(span) === from);
  while (at) {
    path.push(nameOf(at));
    const { parentSpanId } = at;
    if (parentSpanId === spanId) return [...path, 'caller'];
    at = spans.find((span) => span.spanId === parentSpanId);
  }
  return path;
}

function assertNested(spans: readonly CollectedSpan[]): void {
  for (const span of spans) {
    assert.ok(span.startMs <= span.endMs, nameOf(span));
    const parent = spans.find(({ spanId }) => spanId === span.parentSpanId);
    if (!parent || span.service === 'cloche-server') continue;
    // Nanoseconds are rounded.
    const isWithin = span.startMs >= parent.startMs - 0.01 && span.endMs <= parent.endMs + 0.01;
    assert.ok(isWithin, `${nameOf(span)} leaves ${nameOf(parent)}`);
  }
}

const REQUEST = 'cloche-server: POST /v1/sandboxes';
const RUN = 'cloche-server: POST /v1/sandboxes/{sandboxId}/code/runs';

describe('a trace', () => {
  let sandboxId: string;

  it('a trace of a creation goes from the caller over server and hostd to the agent', async () => {
    const client = caller();
    const body = { env: { SECRET: MARK }, metadata: { label: MARK } };
    const { status, body: created } = await service.api.request('POST', '/v1/sandboxes', { body, ...client });
    assert.equal(status, 201);
    sandboxId = created.sandbox.id;
    const [launch, put, environment] = [
      'cloche-host: claim',
      'cloche-host: PUT /instances',
      'cloche-agent: PUT /environment',
    ];
    const spans = await spansOf(client, REQUEST, 'cloche-server: launch sandbox', launch, put, environment);
    const above = ['cloche-server: launch sandbox', REQUEST, 'caller'];
    assert.deepEqual(pathOf(spans, launch, client), [launch, put, 'cloche-server: host PUT /instances', ...above]);
    assert.deepEqual(pathOf(spans, environment, client), [
      environment,
      'cloche-server: agent PUT /environment',
      ...above,
    ]);
    assertNested(spans);
    const request = spans.find((span) => nameOf(span) === REQUEST);
    assert.equal(request?.kind, 'server');
    assert.equal(Number(request.attributes['http.response.status_code']), 201);
    assert.equal(request.attributes['cloche.operation'], 'createSandbox');
    await assertLogged(client);
  });

  it('a trace of a run has what the agent did for it: opening its context, the queue, the execution', async () => {
    const client = caller();
    const body = { code: `import time; time.sleep(0.05); "${MARK}"`, language: 'python' };
    const path = `/v1/sandboxes/${sandboxId}/code/runs`;
    const { run } = (await service.api.request('POST', path, { body, key: 'auto', ...client })).body;
    assert.equal(run.outputs[0].value, `'${MARK}'`);
    assert.deepEqual(Object.keys(run).sort(), Object.keys((await service.api.post(path, body)).body.run).sort());
    const steps = ['open', 'queue', 'execute'].map((step) => `cloche-agent: ${step}`);
    const spans = await spansOf(client, RUN, ...steps);
    for (const step of steps) {
      assert.deepEqual(pathOf(spans, step, client), [
        step,
        'cloche-agent: run',
        'cloche-server: agent run',
        RUN,
        'caller',
      ]);
    }
    assertNested(spans);
    const executed = spans.find(({ name }) => name === 'execute');
    assert.ok(executed && executed.endMs - executed.startMs >= 50);
    assert.equal(spans.find((span) => nameOf(span) === RUN)?.attributes['cloche.sandbox_id'], sandboxId);
  });

  it('a trace of a stream ends with the stream', async () => {
    const client = caller();
    const body = { code: `print("${MARK}")`, language: 'python' };
    const path = `/v1/sandboxes/${sandboxId}/code/runs/stream`;
    const { body: events } = await service.api.request('POST', path, { body, key: 'auto', ...client });
    assert.match(events, /event: complete/);
    const spans = await spansOf(
      client,
      'cloche-agent: execute',
      `cloche-server: POST ${'/v1/sandboxes/{sandboxId}/code/runs/stream'}`,
    );
    assertNested(spans);
  });

  it('a trace that the caller does not sample has no spans, and neither has a request without a key', async () => {
    const unsampled = caller('00');
    const stranger = caller();
    const path = `/v1/sandboxes/${sandboxId}`;
    assert.equal((await service.api.request('GET', path, unsampled)).status, 200);
    await service.api.request('GET', path, { headers: { ...stranger.headers, authorization: 'Bearer wrong' } });
    const last = caller();
    await service.api.request('GET', path, last);
    await spansOf(last, 'cloche-server: GET /v1/sandboxes/{sandboxId}');
    for (const { traceId } of [unsampled, stranger]) {
      assert.ok(!collector.spans.some((span) => span.traceId === traceId));
    }
  });

  it('a trace has no content, names of files, variables or keys', async () => {
    const client = caller();
    const path = `/v1/sandboxes/${sandboxId}/files/content?path=/home/user/${MARK}.txt`;
    const read = await service.api.request('GET', path, client);
    assert.equal(read.status, 404);
    await spansOf(client, 'cloche-server: GET /v1/sandboxes/{sandboxId}/files/content');
    const all = collector.bodies.join('\n');
    assert.ok(all.includes(sandboxId) && all.includes('"test"'));
    assert.ok(!all.includes(MARK));
    assert.ok(!all.includes(service.apiKey));
  });

  it('requests do not wait for their traces: they go on while the collector hangs', async () => {
    collector.hold();
    const before = collector.requests.length;
    await service.api.request('GET', `/v1/sandboxes/${sandboxId}`, caller());
    await eventually(() => collector.requests.length > before, { because: 'the collector has a request' });
    for (let round = 0; round < 20; round += 1) {
      const { status } = await service.api.post(`/v1/sandboxes/${sandboxId}/code/runs`, {
        code: '1',
        language: 'python',
      });
      assert.equal(status, 200);
    }
    collector.answer();
  });
});

/** The lines of server and hostd name the trace. */
async function assertLogged({ traceId }: Caller): Promise<void> {
  for (const part of ['server', 'hostd']) {
    const file = join(service.dataDir, 'logs', `${part}.log`);
    const isLogged = () => readFileSync(file, 'utf8').includes(`"traceId":"${traceId}"`);
    await eventually(isLogged, { because: `the log of ${part} has the trace` });
  }
}
