import type { Logger } from 'pino';
import type { Tracing } from './tracing.ts';
import type { TracingSettings } from './tracing-settings.ts';

/** Returns undefined, and loads nothing, if traces are off. */
export async function openTracing(
  settings: TracingSettings | undefined,
  version: string,
  log: Logger,
): Promise<Tracing | undefined> {
  if (!settings) return undefined;
  const { OtelTracing } = await import('./otel-tracing.ts');
  return new OtelTracing(settings, version, log);
}
