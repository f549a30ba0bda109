import type { QuotaName } from '@cloche/contract';
import { sql } from 'kysely';
import type { Database } from '../db/database.ts';
import { prepareQuery } from '../db/prepared-query.ts';
import type { Transaction } from '../db/transactions.ts';
import { LIVE_STATUSES, OCCUPYING_STATUSES } from '../sandboxes/record/sandbox.ts';
import type { QuotaScope } from './limits.ts';

export const RATE_WINDOW_MS = 60_000;

type Count = (db: Database, scope: QuotaScope, now: number) => Promise<number>;

const COUNTS: Partial<Record<QuotaName, Count>> = {
  sandboxesPerMinute: countCreated,
  artifactBytes: countArtifactBytes,
  templateBytes: countTemplateBytes,
  previews: countPreviews,
  secrets: (db, scope) => countKept(db, 'secrets', scope),
  webhooks: (db, scope) => countKept(db, 'webhooks', scope),
  concurrentWorkspaceRuns: countRunning,
  requestsPerMinute: countRequests,
};

/** Counts what is used, from rows alone, so that a server that dies leaves no wrong counts behind. */
export class UseCounts {
  readonly #db: Database;
  readonly #live: Partial<Record<QuotaName, CountLive>>;

  constructor(db: Database) {
    this.#db = db;
    this.#live = {
      liveSandboxes: prepareLive(db),
      liveCpu: prepareLive(db, 'cpu_millis', 1000),
      liveMemoryMb: prepareLive(db, 'memory_mb'),
    };
  }

  /** Returns how much of a quota is used. What this version of the service does not have yet counts 0. */
  async count(quota: QuotaName, scope: QuotaScope, now: number, tx?: Transaction): Promise<number> {
    const live = this.#live[quota];
    if (live) return live(scope, tx);
    return (await COUNTS[quota]?.(tx?.db ?? this.#db, scope, now)) ?? 0;
  }
}

type CountLive = (scope: QuotaScope, tx?: Transaction) => Promise<number>;

/**
 * Prepares a sum over live sandboxes, or their number, which the index alone gives. Prepared, because each creation in
 * a limited project needs it.
 */
function prepareLive(db: Database, column?: 'cpu_millis' | 'memory_mb', divisor = 1): CountLive {
  const live = db
    .selectFrom('sandboxes')
    .where('status', 'in', OCCUPYING_STATUSES)
    .select(({ fn }) => (column ? fn.sum<number | null>(column) : fn.countAll<number>()).as('used'));
  const inOrganization = prepareQuery(db, ({ orgId }: { orgId: string }) => live.where('org_id', '=', orgId));
  const inProject = prepareQuery(db, ({ orgId, projectId }: { orgId: string; projectId: string }) =>
    live.where('org_id', '=', orgId).where('project_id', '=', projectId),
  );
  return async ({ orgId, projectId }, tx) => {
    const counted = projectId === undefined ? inOrganization({ orgId }, tx) : inProject({ orgId, projectId }, tx);
    return Number((await counted).rows[0]?.used) / divisor;
  };
}

async function countCreated(db: Database, scope: QuotaScope, now: number): Promise<number> {
  const { created } = await createdSince(db, scope, now - RATE_WINDOW_MS)
    .select(({ fn }) => fn.countAll<number>().as('created'))
    .executeTakeFirstOrThrow();
  return Number(created);
}

/** Returns when the limit lets one more sandbox be created, or undefined if it never does. */
export async function nextCreationAt(db: Database, scope: QuotaScope, limit: number): Promise<number | undefined> {
  if (limit === 0) return undefined;
  const decisive = await createdSince(db, scope, 0)
    .select('created_at')
    .orderBy('created_at', 'desc')
    .offset(limit - 1)
    .limit(1)
    .executeTakeFirst();
  return decisive && decisive.created_at + RATE_WINDOW_MS;
}

function createdSince(db: Database, { orgId, projectId }: QuotaScope, time: number) {
  const query = db.selectFrom('sandboxes').where('org_id', '=', orgId).where('created_at', '>', time);
  return projectId === undefined ? query : query.where('project_id', '=', projectId);
}

/** Equal contents count once for each project. */
async function countArtifactBytes(db: Database, { orgId, projectId }: QuotaScope): Promise<number> {
  let kept = db.selectFrom('artifacts').where('org_id', '=', orgId).where('deleted_at', 'is', null);
  if (projectId !== undefined) kept = kept.where('project_id', '=', projectId);
  const contents = kept.groupBy(['project_id', 'sha256']).select(({ fn }) => fn.max('size_bytes').as('size_bytes'));
  const { bytes } = await db
    .selectFrom(contents.as('contents'))
    .select(({ fn }) => fn.sum<number | null>('size_bytes').as('bytes'))
    .executeTakeFirstOrThrow();
  return Number(bytes);
}

/** Counts the versions that organizations have built. A project has none. */
async function countTemplateBytes(db: Database, { orgId, projectId }: QuotaScope): Promise<number> {
  if (projectId !== undefined) return 0;
  const { bytes } = await db
    .selectFrom('custom_template_versions')
    .select(({ fn }) => fn.sum<number | null>('size_bytes').as('bytes'))
    .where('org_id', '=', orgId)
    .where('removed_at', 'is', null)
    .executeTakeFirstOrThrow();
  return Number(bytes);
}

async function countPreviews(db: Database, { orgId, projectId }: QuotaScope, now: number): Promise<number> {
  let open = db
    .selectFrom('previews')
    .innerJoin('sandboxes', 'sandboxes.id', 'previews.sandbox_id')
    .where('previews.org_id', '=', orgId)
    .where('previews.deleted_at', 'is', null)
    .where((where) => where.or([where('previews.expires_at', 'is', null), where('previews.expires_at', '>', now)]))
    .where('sandboxes.status', 'in', LIVE_STATUSES);
  if (projectId !== undefined) open = open.where('previews.project_id', '=', projectId);
  const { previews } = await open.select(({ fn }) => fn.countAll<number>().as('previews')).executeTakeFirstOrThrow();
  return Number(previews);
}

/** Tables whose rows count until they are marked as deleted. Custom templates belong to no project. */
export type KeptTable = 'custom_templates' | 'secrets' | 'webhooks';

/** Returns the number of rows of an organization or a project that are not deleted. */
export async function countKept(db: Database, table: KeptTable, { orgId, projectId }: QuotaScope): Promise<number> {
  let kept = db.selectFrom(table).where('org_id', '=', orgId).where('deleted_at', 'is', null);
  if (projectId !== undefined) kept = kept.where(sql.ref<string>('project_id'), '=', projectId);
  const { rows } = await kept.select(({ fn }) => fn.countAll<number>().as('rows')).executeTakeFirstOrThrow();
  return Number(rows);
}

/** At most a second behind: servers write their counts once a second. */
async function countRequests(db: Database, { orgId, projectId }: QuotaScope, now: number): Promise<number> {
  const { requests } = await db
    .selectFrom('request_counts')
    .select(({ fn }) => fn.sum<number | null>('requests').as('requests'))
    .where('scope_id', '=', projectId ?? orgId)
    .where('second', '>=', Math.floor((now - RATE_WINDOW_MS) / 1000))
    .executeTakeFirstOrThrow();
  return Number(requests);
}

/** A run counts from the time at which a server creates its sandbox. */
async function countRunning(db: Database, { orgId, projectId }: QuotaScope): Promise<number> {
  let runs = db.selectFrom('workspace_runs').where('org_id', '=', orgId);
  runs = runs.where((where) =>
    where.or([
      where('status', '=', 'running'),
      where.and([where('status', '=', 'queued'), where('step', 'is not', null)]),
    ]),
  );
  if (projectId !== undefined) runs = runs.where('project_id', '=', projectId);
  const { running } = await runs.select(({ fn }) => fn.countAll<number>().as('running')).executeTakeFirstOrThrow();
  return Number(running);
}
