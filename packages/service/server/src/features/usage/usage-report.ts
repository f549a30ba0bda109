import { setImmediate } from 'node:timers/promises';
import { LIMITS, type OrgId, type ProjectId, type UsageRow } from '@cloche/contract';
import { invalidRequest } from '../../platform/base/app-error.ts';
import { timestamp } from '../../platform/base/clock.ts';
import type { Database } from '../../platform/db/database.ts';
import type { UsageHourTable } from '../../platform/db/tables/usage-tables.ts';
import { HOUR_COLUMNS } from '../metering/hour-sums.ts';
import { GROUP_MS, type UsageRange } from './usage-range.ts';

/** Rows read at once, which takes a few milliseconds. */
const PAGE = 1000;

export interface UsageFilter extends UsageRange {
  readonly orgId: OrgId;
  /** Undefined means every project of the organization. */
  readonly projectIds: readonly ProjectId[] | undefined;
}

/** Returns the usage by project and hour or day, oldest first. @throws AppError `invalid_request` for too many rows */
export async function readUsage(db: Database, filter: UsageFilter): Promise<UsageRow[]> {
  const groupMs = GROUP_MS[filter.groupBy];
  const groups = new Map<string, UsageHourTable>();
  for await (const row of hoursOf(db, filter)) {
    const hour = row.hour - (row.hour % groupMs);
    const key = `${hour} ${row.project_id}`;
    const sum = groups.get(key);
    if (!sum) groups.set(key, { ...row, hour });
    else for (const column of HOUR_COLUMNS) sum[column] += row[column];
    if (groups.size > LIMITS.usageRows) throw tooManyRows(filter);
  }
  const rows = [...groups.values()].sort((a, b) => a.hour - b.hour || (a.project_id < b.project_id ? -1 : 1));
  return rows.map((row) => toUsageRow(row, groupMs));
}

/** Reads the hours page by page, so that other queries run in between. */
async function* hoursOf(db: Database, { orgId, projectIds, from, to }: UsageFilter): AsyncGenerator<UsageHourTable> {
  let query = db.selectFrom('usage_hours').selectAll().where('org_id', '=', orgId);
  query = query.where('hour', '>=', from).where('hour', '<', to);
  if (projectIds) query = query.where('project_id', 'in', projectIds);
  query = query.orderBy('hour').orderBy('project_id').limit(PAGE);
  let page = await query.execute();
  for (;;) {
    yield* page;
    const last = page.at(-1);
    if (!last || page.length < PAGE) return;
    await setImmediate();
    page = await query
      .where(({ eb, refTuple, tuple }) => eb(refTuple('hour', 'project_id'), '>', tuple(last.hour, last.project_id)))
      .execute();
  }
}

function tooManyRows({ groupBy }: UsageFilter) {
  const remedy = `request a shorter range or one project${groupBy === 'hour' ? ', or `groupBy=day`' : ''}`;
  return invalidRequest({
    path: 'query',
    message: `selects more than ${LIMITS.usageRows} rows of all projects together; ${remedy}`,
  });
}

function toUsageRow(row: UsageHourTable, groupMs: number): UsageRow {
  return {
    from: timestamp(row.hour),
    to: timestamp(row.hour + groupMs),
    projectId: row.project_id as ProjectId,
    sandboxMs: row.sandbox_ms,
    cpuMs: row.cpu_ms,
    memoryMbMs: row.memory_mb_ms,
    diskMbMs: row.disk_mb_ms,
    pausedMs: row.paused_ms,
    runs: row.runs,
    commands: row.commands,
    workspaceRuns: row.workspace_runs,
    egressBytes: row.egress_bytes,
    ingressBytes: row.ingress_bytes,
    artifactBytes: row.artifact_bytes,
  };
}
