import { ociRuntimeOf } from '@cloche/protocol';
import { pino } from 'pino';
import { type AppDeps, createApp } from '../src/http/app.ts';

/** Creates the app of hostd without a host: what a test does not give does nothing. */
export function appOf(deps: Partial<AppDeps>) {
  return createApp({
    instances: {} as unknown as AppDeps['instances'],
    freezing: {} as unknown as AppDeps['freezing'],
    measured: {} as unknown as AppDeps['measured'],
    templates: { listBuilt: async () => [] } as unknown as AppDeps['templates'],
    captured: { list: () => [] } as unknown as AppDeps['captured'],
    captures: {} as unknown as AppDeps['captures'],
    parking: {} as unknown as AppDeps['parking'],
    removal: { remove: async () => {} } as unknown as AppDeps['removal'],
    recordLanguage: () => {},
    noteBusyClaim: () => {},
    pool: { expect: async () => {} },
    health: () => ({
      status: 'ready',
      protocolVersion: 1,
      agentProtocolVersion: 1,
      installationId: 'x',
      ociRuntime: 'crun',
      isolation: ociRuntimeOf('crun').claims,
      pool: { size: 0, ready: 0, hits: 0, misses: 0 },
      warnings: [],
    }),
    measureNetwork: async () => [],
    metrics: async () => '',
    log: pino({ level: 'silent' }),
    ...deps,
  });
}
