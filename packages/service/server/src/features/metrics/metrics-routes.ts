import { operations } from '@cloche/contract';
import { timeOf } from '../../platform/http/query-time.ts';
import { type Route, route } from '../../platform/http/route.ts';
import type { MeasureSandboxes } from './measure-sandboxes.ts';

const DEFAULT_LIMIT = 100;

export function metricsRoutes(measureSandboxes: MeasureSandboxes): Route[] {
  return [
    route(operations.getSandboxMetrics, async ({ call, params, query }) => {
      const fromMs = query.from === undefined ? 0 : Math.max(0, timeOf('from', query.from));
      return { metrics: await measureSandboxes.get(call, params.sandboxId, fromMs) };
    }),
    route(operations.listSandboxMetrics, async ({ call, query }) => {
      const { projectId, limit = DEFAULT_LIMIT } = query;
      return measureSandboxes.list(call, { projectId, limit });
    }),
  ];
}
