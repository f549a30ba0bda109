/** The queries that find and list sandboxes by what they are. */
import { LIMITS, type ProjectId, type SandboxId } from '@cloche/contract';
import { type Selectable, sql } from 'kysely';
import type { Database } from '../../platform/db/database.ts';
import { type ListPart, NEWEST_FIRST, readPart, selected } from '../../platform/db/list-part.ts';
import type { SandboxTable } from '../../platform/db/tables/sandbox-tables.ts';
import { type Fact, HOLDS_NAME, IS_NOT_ENDED, sandboxThat } from '../sandbox-status/status-facts.ts';
import type { SandboxFilter } from './sandbox-repository.ts';

type Row = Selectable<SandboxTable>;

/** Most ends of retentions that one pass announces. */
const ANNOUNCED_AT_ONCE = 100;

export function findNamed(db: Database, projectId: ProjectId, name: string): Promise<Row | undefined> {
  const query = db.selectFrom('sandboxes').selectAll().where('project_id', '=', projectId).where('name', '=', name);
  return query.where(HOLDS_NAME).executeTakeFirst();
}

export function listSandboxes(
  db: Database,
  { orgId, status, paused, name, ...selection }: SandboxFilter,
  part: ListPart,
): Promise<Row[]> {
  let query = db.selectFrom('sandboxes').selectAll().where('org_id', '=', orgId);
  if (status === 'unended') query = query.where(IS_NOT_ENDED);
  else if (status !== undefined) query = query.where('status', '=', status);
  if (paused !== undefined) query = query.where(isPaused(paused));
  const rare = selected(db, selection, 'sandboxes');
  if (name !== undefined) rare.push(sql<boolean>`sandboxes.name = ${name}`);
  return readPart(query, NEWEST_FIRST, part, rare);
}

export function listThat(db: Database, fact: Fact): Promise<Row[]> {
  return db.selectFrom('sandboxes').selectAll().where(sandboxThat(fact)).execute();
}

export function listExpired(db: Database, now: number): Promise<Row[]> {
  const query = db.selectFrom('sandboxes').selectAll().where(sandboxThat('acceptsWork'));
  return query.where('expires_at', '<=', now).execute();
}

/** Returns the earliest expiry after `now`. */
export async function nextExpiry(db: Database, now: number): Promise<number | undefined> {
  const query = db.selectFrom('sandboxes').select((select) => select.fn.min('expires_at').as('at'));
  const later = query.where(sandboxThat('acceptsWork')).where('expires_at', '>', now);
  return (await later.executeTakeFirst())?.at ?? undefined;
}

/** A server of an earlier release may have set the expiry without the notice. */
export function listRetentionEnding(db: Database, now: number): Promise<Row[]> {
  const query = db.selectFrom('sandboxes').selectAll().where('retention_notice_at', '<=', now);
  const ending = query.where('expires_at', '>', now).where('expires_at', '<=', now + LIMITS.retentionNoticeMs);
  return ending.where(sandboxThat('needsWake')).orderBy('retention_notice_at').limit(ANNOUNCED_AT_ONCE).execute();
}

export function listPausedOf(db: Database, ids: readonly SandboxId[]): Promise<Row[]> {
  return db.selectFrom('sandboxes').selectAll().where('id', 'in', ids).where(sandboxThat('needsWake')).execute();
}

export function listWithIdleTimeout(db: Database): Promise<Row[]> {
  const query = db.selectFrom('sandboxes').selectAll().where(sandboxThat('isReady'));
  return query.where(sql<boolean>`coalesce(idle_timeout_ms, pause_after_idle_ms) is not null`).execute();
}

export function findLongestPaused(db: Database): Promise<Row[]> {
  return db
    .selectFrom('sandboxes')
    .selectAll()
    .where('status', '=', 'ready')
    .where('pause_state', '=', 'paused')
    .where('paused_memory', '=', 'prefer')
    .orderBy('paused_at')
    .limit(1)
    .execute();
}

function isPaused(paused: boolean) {
  const is = sandboxThat('isShownPaused');
  return paused ? is : sql<boolean>`not ${is}`;
}
