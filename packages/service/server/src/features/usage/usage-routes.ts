import { operations, type SandboxUsage } from '@cloche/contract';
import type { ProjectAccess } from '../../platform/access/project-access.ts';
import { type Clock, timestamp } from '../../platform/base/clock.ts';
import type { Database } from '../../platform/db/database.ts';
import { type Route, route } from '../../platform/http/route.ts';
import type { UsageRecord } from '../metering/next-count.ts';
import type { SandboxUsages } from '../metering/sandbox-usages.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { SandboxAccess } from '../sandbox-records/sandbox-access.ts';
import { rangeOf } from './usage-range.ts';
import { readUsage } from './usage-report.ts';

export interface UsageRoutesDeps {
  readonly db: Database;
  readonly usages: SandboxUsages;
  readonly projects: ProjectAccess;
  readonly sandboxes: SandboxAccess;
  readonly clock: Clock;
}

export function usageRoutes({ db, usages, projects, sandboxes, clock }: UsageRoutesDeps): Route[] {
  return [
    route(operations.listUsage, async ({ call: { credential }, query }) => {
      const { orgId } = credential;
      const range = rangeOf(query, clock.now());
      const projectIds = await projects.listed(credential, query.projectId);
      return { data: await readUsage(db, { ...range, orgId, projectIds }), hasMore: false };
    }),
    route(operations.getSandboxUsage, async ({ call: { credential }, params }) => {
      const record = await sandboxes.get(credential, params.sandboxId);
      return { usage: toSandboxUsage(record, await usages.find(record.id)) };
    }),
  ];
}

function toSandboxUsage({ createdAt, readyAt }: SandboxRecord, counted: UsageRecord | undefined): SandboxUsage {
  const from = readyAt ?? createdAt;
  return {
    cpuMs: counted?.cpu_ms ?? 0,
    memoryMbMs: counted?.memory_mb_ms ?? 0,
    diskMbMs: counted?.disk_mb_ms ?? 0,
    pausedMs: counted?.paused_ms ?? 0,
    runs: counted?.runs ?? 0,
    commands: counted?.commands ?? 0,
    egressBytes: counted?.egress_bytes ?? 0,
    ingressBytes: counted?.ingress_bytes ?? 0,
    from: timestamp(from),
    to: timestamp(counted?.counted_until ?? from),
  };
}
