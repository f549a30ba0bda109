import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, beforeEach, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { pino } from 'pino';
import { openTraceCollector, type TraceCollector } from '../../../testing/trace-collector.ts';
import { openTracing } from './open-tracing.ts';
import type { Tracing } from './tracing.ts';
import { readTracingSettings } from './tracing-settings.ts';

const REQUEST = { name: 'POST /v1/things', elapsedMs: 5, traceparent: undefined, tracestate: undefined };
const NAMES = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_HEADERS', 'OTEL_SERVICE_NAME'];

let collector: TraceCollector;
const saved = NAMES.map((name) => [name, process.env[name]] as const);
before(async () => {
  collector = await openTraceCollector();
});
beforeEach(() => {
  process.env.OTEL_EXPORTER_OTLP_ENDPOINT = collector.url;
});
after(async () => {
  for (const [name, value] of saved) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
  await collector[Symbol.asyncDispose]();
});

async function open(env: Record<string, string> = {}): Promise<{ tracing: Tracing; lines: string[] }> {
  const lines: string[] = [];
  const log = pino({ level: 'info' }, { write: (line: string) => lines.push(JSON.parse(line).msg) });
  const settings = readTracingSettings({ ...process.env, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json', ...env });
  const tracing = await openTracing(settings, '1.2.3', log);
  assert.ok(tracing);
  return { tracing, lines };
}

/** Ends this many children of one request, each apart. */
function makeSpans(tracing: Tracing, count: number, traceparent?: string): string {
  const span = tracing.startRequest({ ...REQUEST, traceparent });
  assert.ok(span);
  tracing.within(span, () => {
    for (let index = 0; index < count; index += 1) tracing.startChild('child')?.end();
  });
  span.end();
  return span.traceId;
}

const receivedOf = (traceId: string) => collector.spans.filter((span) => span.traceId === traceId);

describe('traces', () => {
  it('traces name the parts, by the standard variables, and send their headers', async () => {
    process.env.OTEL_SERVICE_NAME = 'sandboxes';
    process.env.OTEL_EXPORTER_OTLP_HEADERS = 'x-tenant=blue';
    const { tracing } = await open();
    delete process.env.OTEL_SERVICE_NAME;
    delete process.env.OTEL_EXPORTER_OTLP_HEADERS;
    const span = tracing.startRequest(REQUEST);
    assert.ok(span);
    span.addRemoteWork('host', 'PUT /instances', 'total;start=0;dur=1, claim;start=0;dur=1');
    span.addRemoteWork('agent', 'run', 'total;start=0;dur=1');
    span.end('unavailable');
    await tracing.close();
    const spans = receivedOf(span.traceId);
    assert.deepEqual(spans.map(({ service, name }) => `${service}: ${name}`).sort(), [
      'cloche-agent: run',
      'cloche-host: PUT /instances',
      'cloche-host: claim',
      'sandboxes: POST /v1/things',
    ]);
    const request = spans.find(({ kind, service }) => kind === 'server' && service === 'sandboxes');
    assert.ok(request?.isError);
    assert.equal(request.attributes['error.type'], 'unavailable');
    assert.equal(collector.requests.at(-1)?.headers['x-tenant'], 'blue');
    assert.equal(collector.requests.at(-1)?.url, '/v1/traces');
  });

  it('traces are sent as protobuf by default', async () => {
    const { tracing } = await open({ OTEL_EXPORTER_OTLP_PROTOCOL: '' });
    makeSpans(tracing, 1);
    await tracing.close();
    assert.equal(collector.requests.at(-1)?.headers['content-type'], 'application/x-protobuf');
    assert.ok(collector.bodies.at(-1)?.includes('POST /v1/things'));
  });

  it('traces follow the decision of the caller, or of the sampler', async () => {
    const id = '0af7651916cd43dd8448eb211c80319c';
    const caller = (flags: string) => ({ ...REQUEST, traceparent: `00-${id}-b7ad6b7169203331-${flags}` });
    const { tracing } = await open();
    assert.equal(tracing.startRequest(caller('00')), undefined);
    assert.equal(tracing.startRequest(caller('01'))?.traceId, id);
    for (const traceparent of ['', 'garbage', `00-${'0'.repeat(32)}-b7ad6b7169203331-01`, 'x'.repeat(100_000)]) {
      const span = tracing.startRequest({ ...REQUEST, traceparent });
      assert.ok(span && span.traceId !== id && /^[0-9a-f]{32}$/.test(span.traceId), traceparent.slice(0, 60));
    }
    assert.equal(tracing.startChild('outside of a request'), undefined);
    await tracing.close();
    const none = await open({ OTEL_TRACES_SAMPLER: 'always_off' });
    assert.equal(none.tracing.startRequest(caller('01')), undefined);
    await none.tracing.close();
  });

  it('beyond the queue are dropped while the collector does not answer, and no more memory is taken', async () => {
    const { tracing } = await open({ OTEL_BSP_MAX_QUEUE_SIZE: '10', OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '5' });
    const before = collector.requests.length;
    collector.hold();
    const first = makeSpans(tracing, 10);
    await eventually(() => collector.requests.length > before, { because: 'a full batch is sent at once' });
    const second = makeSpans(tracing, 1_000);
    collector.answer();
    await tracing.close();
    const received = receivedOf(first).length + receivedOf(second).length;
    assert.ok(received > 0 && received <= 25, `${received} spans were kept`);

    const large = await open({ OTEL_BSP_MAX_QUEUE_SIZE: '2000' });
    const third = makeSpans(large.tracing, 1_000);
    await large.tracing.close();
    assert.equal(receivedOf(third).length, 1_001);
  });

  it('traces do not hold up the end of the server when the collector never answers', async () => {
    const { tracing } = await open({ OTEL_BSP_EXPORT_TIMEOUT: '600000' });
    collector.hold();
    makeSpans(tracing, 1);
    await tracing.close();
    collector.answer();
  });

  it('traces that a collector refuses, or that find none, are logged once', async () => {
    for (const make of [
      () => collector.answer(400),
      () => (process.env.OTEL_EXPORTER_OTLP_ENDPOINT = 'http://127.0.0.1:1'),
    ]) {
      make();
      const { tracing, lines } = await open({ OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '2', OTEL_BSP_SCHEDULE_DELAY: '1' });
      makeSpans(tracing, 20);
      await eventually(() => lines.length > 0, { because: 'an export has failed' });
      makeSpans(tracing, 20);
      await tracing.close();
      assert.deepEqual(lines, ['traces are dropped: the collector does not take them']);
      collector.answer(200);
    }
  });

  it('load no module of OpenTelemetry while they are off', () => {
    const open = new URL('open-tracing.ts', import.meta.url).href;
    const program = `
      import { registerHooks } from 'node:module';
      const loaded = [];
      registerHooks({ resolve(name, context, next) { const found = next(name, context); loaded.push(found.url); return found; } });
      const { openTracing } = await import(${JSON.stringify(open)});
      await import(${JSON.stringify(new URL('../../compose/compose.ts', import.meta.url).href)});
      const count = () => loaded.filter((url) => /@opentelemetry\\/(sdk|exporter|otlp)/.test(url)).length;
      await openTracing(undefined, '1');
      const off = count();
      await openTracing({ protocol: 'http/json', sampler: 'always_on', ratio: 1 }, '1');
      console.log(JSON.stringify([loaded.length > 100, off, count() > 0]));
      process.exit();`;
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
      encoding: 'utf8',
    });
    assert.deepEqual(JSON.parse(stdout || 'null'), [true, 0, true], stderr);
  });
});
