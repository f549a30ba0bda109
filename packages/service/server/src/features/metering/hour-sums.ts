import type { OrgId, ProjectId } from '@cloche/contract';
import type { UsageHourTable } from '../../platform/db/tables/usage-tables.ts';

export const HOUR_MS = 3_600_000;

/** The project in which something is used. */
export interface UsageOwner {
  readonly orgId: OrgId;
  readonly projectId: ProjectId;
}

export const HOUR_COLUMNS = [
  'sandbox_ms',
  'cpu_ms',
  'memory_mb_ms',
  'disk_mb_ms',
  'paused_ms',
  'runs',
  'commands',
  'workspace_runs',
  'egress_bytes',
  'ingress_bytes',
  'artifact_bytes',
] as const satisfies readonly (keyof UsageHourTable)[];
export type HourUse = Record<(typeof HOUR_COLUMNS)[number], number>;

export const NO_USE = Object.freeze(Object.fromEntries(HOUR_COLUMNS.map((column) => [column, 0]))) as Readonly<HourUse>;

/** Returns the beginning of the hour (UTC) that a time belongs to. */
export function hourOf(at: number): number {
  return at - (at % HOUR_MS);
}

/** Splits the time from `from` up to `to` at the hours (UTC). Returns no part for an empty time. */
export function splitAtHours(from: number, to: number): { readonly hour: number; readonly ms: number }[] {
  const parts = [];
  for (let start = from; start < to; ) {
    const hour = hourOf(start);
    const end = Math.min(to, hour + HOUR_MS);
    parts.push({ hour, ms: end - start });
    start = end;
  }
  return parts;
}

/** Sums what is used by project and hour, so that one transaction writes each row once. */
export class HourSums {
  readonly #sums = new Map<string, UsageHourTable>();

  add({ orgId, projectId }: UsageOwner, hour: number, use: Partial<HourUse>): void {
    const key = `${orgId} ${projectId} ${hour}`;
    const sum = this.#sums.get(key) ?? { org_id: orgId, project_id: projectId, hour, ...NO_USE };
    for (const column of HOUR_COLUMNS) sum[column] += use[column] ?? 0;
    this.#sums.set(key, sum);
  }

  /** Returns the sums in a fixed order, so that simultaneous transactions lock the rows in the same order. */
  rows(): UsageHourTable[] {
    return [...this.#sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
  }
}
