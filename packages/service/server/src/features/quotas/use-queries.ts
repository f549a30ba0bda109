/** The queries that count what quotas limit, for an organization or for some of its projects. */
import type { QuotaName } from '@cloche/contract';
import { type SelectQueryBuilder, sql } from 'kysely';
import type { Database } from '../../platform/db/database.ts';
import { sandboxThat } from '../sandbox-status/status-facts.ts';

export const RATE_WINDOW_MS = 60_000;
/** A row that is further ahead was inserted before the clock was set back. Clocks of servers differ by less. */
const AHEAD_MS = 5_000;

/** Values that a query compares with, or the placeholders of a prepared one. */
export interface UseBounds {
  readonly orgId: string;
  readonly now: number;
  /** Creations after `since` and not after `until` are of the last minute. */
  readonly since: number;
  readonly until: number;
  /** The first and the last second whose requests are of the last minute. */
  readonly second: number;
  readonly untilSecond: number;
}

/** Use of a quota by the organization or the project `id`. */
export interface Use {
  readonly quota: QuotaName;
  readonly id: string;
  readonly used: number;
}

export interface UsesAsked {
  readonly ofOrganization: readonly QuotaName[];
  /** Counted for each of `projectIds`. */
  readonly ofProjects: readonly QuotaName[];
  readonly projectIds: readonly string[];
}

// biome-ignore lint/suspicious/noExplicitAny: the tables of a query are no part of its result
type Counting<Row> = SelectQueryBuilder<any, any, Row>;

/** The organization or, with `projectIds`, some of its projects. */
export interface CountedScope {
  readonly bounds: UseBounds;
  readonly projectIds: readonly string[] | undefined;
}

const COUNT = sql<number>`count(*)`.as('used');

/** Counts among paused sandboxes: it is one, or its policy pauses it at its expiry, which no quota may refuse then. */
const HAS_PAUSED_PLACE = sql<boolean>`(${sandboxThat('countsPaused')} or (sandboxes.pause_on_expiry = 1 and ${sandboxThat('acceptsWork')}))`;

/** An organization or project without use has no row in the result. */
const COUNTS: Readonly<Record<QuotaName, (db: Database, scope: CountedScope) => Counting<Omit<Use, 'quota'>>>> = {
  liveSandboxes: (db, scope) => live(db, scope).select(COUNT),
  liveCpu: (db, scope) => live(db, scope).select(sql<number>`sum(cpu_millis) / 1000.0`.as('used')),
  liveMemoryMb: (db, scope) => live(db, scope).select(sql<number>`sum(memory_mb)`.as('used')),
  pausedSandboxes: (db, scope) => live(db, scope, HAS_PAUSED_PLACE).select(COUNT),
  pausedMemoryMb: (db, scope) =>
    live(db, scope, sandboxThat('countsPausedMemory')).select(sql<number>`sum(memory_mb)`.as('used')),
  sandboxesPerMinute: (db, scope) =>
    createdInMinute(db, scope)
      .groupBy(idIn('sandboxes', scope))
      .select([idIn('sandboxes', scope).as('id'), COUNT]),
  wakesPerMinute: (db, scope) =>
    wokenInMinute(db, scope)
      .groupBy(idIn('woken', scope))
      .select([idIn('woken', scope).as('id'), COUNT]),
  artifactBytes: countArtifactBytes,
  templateBytes: countTemplateBytes,
  previews: countPreviews,
  secrets: (db, scope) => countKept(db, 'secrets', scope),
  webhooks: (db, scope) => countKept(db, 'webhooks', scope),
  concurrentWorkspaceRuns: countRunning,
  requestsPerMinute: countRequests,
};

export function useBounds(orgId: string, now: number): UseBounds {
  const [since, until] = [now - RATE_WINDOW_MS, now + AHEAD_MS];
  return { orgId, now, since, until, second: Math.floor(since / 1000), untilSecond: Math.floor(until / 1000) };
}

/** Counts at least one quota. */
export function countUses(db: Database, bounds: UseBounds, asked: UsesAsked): Counting<Use> {
  const count = (quotas: readonly QuotaName[], scope: CountedScope) =>
    quotas.map((quota) => COUNTS[quota](db, scope).select(sql.lit(quota).as('quota')));
  const ofOrganization = count(asked.ofOrganization, { bounds, projectIds: undefined });
  const ofProjects = count(asked.ofProjects, { bounds, projectIds: asked.projectIds });
  return [...ofOrganization, ...ofProjects].reduce((all, one) => all.unionAll(one));
}

/** Selects the sandboxes that were created within the last minute, by the clocks of their servers. */
export function createdInMinute(db: Database, scope: CountedScope) {
  const { since, until } = scope.bounds;
  return (
    db
      .selectFrom('sandboxes')
      .where(isIn('sandboxes', scope))
      // Has an index, and is never earlier than `planned_at`.
      .where('created_at', '>', since)
      .where('planned_at', '>', since)
      .where('planned_at', '<=', until)
  );
}

/** Selects the wakes of the last minute, and those under way, which have no event yet. */
export function wokenInMinute(db: Database, scope: CountedScope) {
  const { since, until, now } = scope.bounds;
  const over = db
    .selectFrom('events')
    .where(isIn('events', scope))
    .where('type', '=', 'sandbox.resumed')
    .where('at', '>', since)
    .where('at', '<=', until)
    .select(['org_id', 'project_id', 'at']);
  const underWay = db
    .selectFrom('sandboxes')
    .where(isIn('sandboxes', scope))
    .where(sandboxThat('isWaking'))
    .select(['org_id', 'project_id', sql<number>`cast(${now} as bigint)`.as('at')]);
  return db.selectFrom(over.unionAll(underWay).as('woken'));
}

function live(db: Database, scope: CountedScope, condition = sandboxThat('countsLive')) {
  const id = idIn('sandboxes', scope);
  return db.selectFrom('sandboxes').where(isIn('sandboxes', scope)).where(condition).groupBy(id).select(id.as('id'));
}

/** Equal contents count once for each project. */
function countArtifactBytes(db: Database, scope: CountedScope) {
  const id = idIn('contents', scope);
  const contents = db
    .selectFrom('artifacts')
    .where(isIn('artifacts', scope))
    .where('deleted_at', 'is', null)
    .groupBy(['org_id', 'project_id', 'sha256'])
    .select(({ fn }) => ['org_id', 'project_id', fn.max('size_bytes').as('size_bytes')]);
  return db
    .selectFrom(contents.as('contents'))
    .groupBy(id)
    .select(({ fn }) => [id.as('id'), fn.sum<number>('size_bytes').as('used')]);
}

/** Counts the versions that organizations have built. A project has none. */
function countTemplateBytes(db: Database, { bounds, projectIds }: CountedScope) {
  return db
    .selectFrom('custom_template_versions')
    .where('org_id', '=', bounds.orgId)
    .where('removed_at', 'is', null)
    .where(projectIds ? sql<boolean>`false` : sql<boolean>`true`)
    .groupBy('org_id')
    .select(({ fn }) => ['org_id as id', fn.sum<number>('size_bytes').as('used')]);
}

function countPreviews(db: Database, scope: CountedScope) {
  const id = idIn('previews', scope);
  const { now } = scope.bounds;
  return db
    .selectFrom('previews')
    .innerJoin('sandboxes', 'sandboxes.id', 'previews.sandbox_id')
    .where(isIn('previews', scope))
    .where('previews.deleted_at', 'is', null)
    .where((where) => where.or([where('previews.expires_at', 'is', null), where('previews.expires_at', '>', now)]))
    .where(sandboxThat('acceptsWork'))
    .groupBy(id)
    .select([id.as('id'), COUNT]);
}

/** Counts rows that are not marked as deleted. */
function countKept(db: Database, table: 'secrets' | 'webhooks', scope: CountedScope) {
  const id = idIn(table, scope);
  return db
    .selectFrom(table)
    .where(isIn(table, scope))
    .where('deleted_at', 'is', null)
    .groupBy(id)
    .select([id.as('id'), COUNT]);
}

/** A run counts from the time at which a server creates its sandbox. */
function countRunning(db: Database, scope: CountedScope) {
  const id = idIn('workspace_runs', scope);
  return db
    .selectFrom('workspace_runs')
    .where(isIn('workspace_runs', scope))
    .where((where) =>
      where.or([
        where('status', '=', 'running'),
        where.and([where('status', '=', 'queued'), where('step', 'is not', null)]),
      ]),
    )
    .groupBy(id)
    .select([id.as('id'), COUNT]);
}

/** At most a second behind: servers write their counts once a second. */
function countRequests(db: Database, { bounds, projectIds }: CountedScope) {
  return db
    .selectFrom('request_counts')
    .where('scope_id', 'in', projectIds ?? [bounds.orgId])
    .where('second', '>=', bounds.second)
    .where('second', '<=', bounds.untilSecond)
    .groupBy('scope_id')
    .select(({ fn }) => ['scope_id as id', fn.sum<number>('requests').as('used')]);
}

function idIn(table: string, { projectIds }: CountedScope) {
  return sql.ref<string>(`${table}.${projectIds ? 'project_id' : 'org_id'}`);
}

function isIn(table: string, { bounds, projectIds }: CountedScope) {
  const isOfOrg = sql<boolean>`${sql.ref(`${table}.org_id`)} = ${bounds.orgId}`;
  if (!projectIds) return isOfOrg;
  return sql<boolean>`${isOfOrg} and ${sql.ref(`${table}.project_id`)} in (${sql.join(projectIds)})`;
}
