/** Reads the standard variables of OpenTelemetry that the library leaves to its user. */

export const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;

export const PROTOCOLS = ['http/protobuf', 'http/json'] as const;

export interface TracingSettings {
  readonly protocol: (typeof PROTOCOLS)[number];
  readonly sampler: (typeof SAMPLERS)[number];
  /** Share of traces that a sampler by ratio takes. */
  readonly ratio: number;
  /** Most finished spans that wait for their export. Further ones are dropped. */
  readonly maxQueueSize: number;
  readonly maxExportBatchSize: number;
  readonly scheduledDelayMillis: number;
  readonly exportTimeoutMillis: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Returns undefined if traces are off. Throws an error that names the wrong variable.
 *
 * The rest is read by the library: `OTEL_EXPORTER_OTLP_*`, `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`.
 */
export function readTracingSettings(env: Environment): TracingSettings | undefined {
  const read = (name: string) => env[name]?.trim() || undefined;
  const endpoint = read('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT') ?? read('OTEL_EXPORTER_OTLP_ENDPOINT');
  if (endpoint === undefined || read('OTEL_SDK_DISABLED')?.toLowerCase() === 'true') return undefined;
  const exporter = read('OTEL_TRACES_EXPORTER') ?? 'otlp';
  if (exporter === 'none') return undefined;
  oneOf('OTEL_TRACES_EXPORTER', exporter, ['otlp', 'none']);
  requireUrl(endpoint);
  const protocol = read('OTEL_EXPORTER_OTLP_TRACES_PROTOCOL') ?? read('OTEL_EXPORTER_OTLP_PROTOCOL') ?? 'http/protobuf';
  const maxQueueSize = integer('OTEL_BSP_MAX_QUEUE_SIZE', read, 2048, 65_536);
  return {
    protocol: oneOf('OTEL_EXPORTER_OTLP_PROTOCOL', protocol, PROTOCOLS),
    sampler: oneOf('OTEL_TRACES_SAMPLER', read('OTEL_TRACES_SAMPLER') ?? 'parentbased_always_on', SAMPLERS),
    ratio: ratio(read('OTEL_TRACES_SAMPLER_ARG')),
    maxQueueSize,
    maxExportBatchSize: Math.min(integer('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', read, 512, 8192), maxQueueSize),
    scheduledDelayMillis: integer('OTEL_BSP_SCHEDULE_DELAY', read, 5_000, 600_000),
    exportTimeoutMillis: integer('OTEL_BSP_EXPORT_TIMEOUT', read, 30_000, 600_000),
  };
}

function oneOf<T extends string>(name: string, value: string, values: readonly T[]): T {
  const found = values.find((each) => each === value);
  if (found === undefined) throw new Error(`${name} must be one of ${values.join(', ')}`);
  return found;
}

function requireUrl(endpoint: string): void {
  const { protocol } = URL.parse(endpoint) ?? {};
  if (protocol === 'http:' || protocol === 'https:') return;
  throw new Error('OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https URL');
}

function ratio(text = '1'): number {
  const value = Number(text);
  if (value >= 0 && value <= 1) return value;
  throw new Error('OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1');
}

function integer(name: string, read: (name: string) => string | undefined, standard: number, most: number): number {
  const value = Number(read(name) ?? standard);
  if (Number.isInteger(value) && value >= 1 && value <= most) return value;
  throw new Error(`${name} must be an integer from 1 to ${most}`);
}
