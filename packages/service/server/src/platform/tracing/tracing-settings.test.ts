import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readTracingSettings } from './tracing-settings.ts';

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:4318' };

describe('the variables of OpenTelemetry', () => {
  it('turn traces on by an endpoint alone', () => {
    assert.equal(readTracingSettings({}), undefined);
    assert.equal(readTracingSettings({ OTEL_SERVICE_NAME: 'cloche' }), undefined);
    assert.equal(readTracingSettings({ ...endpoint, OTEL_SDK_DISABLED: 'TRUE' }), undefined);
    assert.equal(readTracingSettings({ ...endpoint, OTEL_TRACES_EXPORTER: 'none' }), undefined);
    assert.equal(readTracingSettings({ OTEL_EXPORTER_OTLP_ENDPOINT: '' }), undefined);
    const { protocol, sampler, maxQueueSize } = readTracingSettings(endpoint) ?? {};
    assert.deepEqual(
      { protocol, sampler, maxQueueSize },
      {
        protocol: 'http/protobuf',
        sampler: 'parentbased_always_on',
        maxQueueSize: 2048,
      },
    );
  });

  it('choose sampler, protocol and bounds', () => {
    const settings = readTracingSettings({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://collector.example/v1/traces',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/json',
      OTEL_TRACES_SAMPLER: 'traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.25',
      OTEL_BSP_MAX_QUEUE_SIZE: '100',
    });
    assert.equal(settings?.protocol, 'http/json');
    assert.equal(settings?.sampler, 'traceidratio');
    assert.equal(settings?.ratio, 0.25);
    assert.equal(settings?.maxQueueSize, 100);
    assert.equal(settings?.maxExportBatchSize, 100);
  });

  for (const [name, value] of Object.entries({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_TRACES_EXPORTER: 'zipkin',
    OTEL_TRACES_SAMPLER: 'jaeger_remote',
    OTEL_TRACES_SAMPLER_ARG: '2',
    OTEL_BSP_MAX_QUEUE_SIZE: '0',
    OTEL_BSP_SCHEDULE_DELAY: 'soon',
  })) {
    it(`the variables of OpenTelemetry are refused by name: ${name}=${value}`, () => {
      assert.throws(() => readTracingSettings({ ...endpoint, [name]: value }), new RegExp(name));
    });
  }
});
