/** The queries that find and list sandboxes by what they are. */
import type { ProjectId } from '@cloche/contract';
import { sql } from 'kysely';
import type { Database } from '../../platform/db/database.ts';
import { type ListPart, NEWEST_FIRST, readPart, selected } from '../../platform/db/list-part.ts';
import { type Fact, HOLDS_NAME, IS_NOT_ENDED, sandboxThat } from '../sandbox-status/status-facts.ts';
import { PAUSED_STATES, type SandboxRecord } from './sandbox.ts';
import type { SandboxFilter } from './sandbox-repository.ts';
import { toRecord } from './sandbox-row.ts';

export async function findNamed(db: Database, projectId: ProjectId, name: string): Promise<SandboxRecord | undefined> {
  const query = db.selectFrom('sandboxes').selectAll().where('project_id', '=', projectId).where('name', '=', name);
  const row = await query.where(HOLDS_NAME).executeTakeFirst();
  return row && toRecord(row);
}

export async function listSandboxes(
  db: Database,
  { orgId, status, paused, name, ...selection }: SandboxFilter,
  part: ListPart,
): Promise<SandboxRecord[]> {
  let query = db.selectFrom('sandboxes').selectAll().where('org_id', '=', orgId);
  if (status === 'unended') query = query.where(IS_NOT_ENDED);
  else if (status !== undefined) query = query.where('status', '=', status);
  if (paused !== undefined) query = query.where(isPaused(paused));
  const rare = selected(db, selection, 'sandboxes');
  if (name !== undefined) rare.push(sql<boolean>`sandboxes.name = ${name}`);
  return (await readPart(query, NEWEST_FIRST, part, rare)).map(toRecord);
}

export async function listThat(db: Database, fact: Fact): Promise<SandboxRecord[]> {
  const rows = await db.selectFrom('sandboxes').selectAll().where(sandboxThat(fact)).execute();
  return rows.map(toRecord);
}

export async function listExpired(db: Database, now: number): Promise<SandboxRecord[]> {
  const query = db.selectFrom('sandboxes').selectAll().where(sandboxThat('acceptsWork'));
  return (await query.where('expires_at', '<=', now).execute()).map(toRecord);
}

export async function nextExpiry(db: Database): Promise<number | undefined> {
  const query = db.selectFrom('sandboxes').select((select) => select.fn.min('expires_at').as('at'));
  return (await query.where(sandboxThat('acceptsWork')).executeTakeFirst())?.at ?? undefined;
}

export async function listWithIdleTimeout(db: Database): Promise<SandboxRecord[]> {
  const query = db.selectFrom('sandboxes').selectAll().where(sandboxThat('isReady'));
  return (await query.where('idle_timeout_ms', 'is not', null).execute()).map(toRecord);
}

function isPaused(paused: boolean) {
  const states = sql.join([...PAUSED_STATES]);
  const is = sql<boolean>`(sandboxes.status = 'ready' and coalesce(sandboxes.pause_state, '') in (${states}))`;
  return paused ? is : sql<boolean>`not ${is}`;
}
