import type { OrgId, ProjectId } from '@cloche/contract';
import { ClaimedRows } from '../../../platform/db/claimed-rows.ts';
import type { Database } from '../../../platform/db/database.ts';
import type { Transaction } from '../../../platform/db/transactions.ts';
import { QuotaRefusal } from '../../quotas/quota-refusal.ts';
import type { Quotas } from '../../quotas/quotas.ts';
import type { WorkspaceRunRecord } from '../record/workspace-run.ts';
import { toRecord } from '../record/workspace-run-row.ts';

/** Duration of a claim without renewal, unless the lease of servers has another duration. */
const CLAIM_MS = 30_000;

/** A project with queued runs. */
export interface WaitingProject {
  readonly orgId: OrgId;
  readonly projectId: ProjectId;
}

export interface RunQueueDeps {
  readonly db: Database;
  /** Connection for the renewals of claims, which other work must not delay. Default: `db`. */
  readonly renewalDb?: Database;
  readonly quotas: Quotas;
  /** Time until other servers count a server as dead and adopt its runs. Default: `CLAIM_MS`. */
  readonly leaseMs?: number;
}

/**
 * The queue of workspace runs. It has no table of its own: servers claim rows of `workspace_runs`. Organizations take
 * turns, and the projects of an organization take turns. The runs of a project start in the order in which they were
 * queued.
 */
export class RunQueue {
  /** Duration of a claim without renewal. */
  readonly claimMs: number;
  /** The claims to single runs. */
  readonly claims: ClaimedRows;
  readonly #deps: RunQueueDeps;
  #lastTurn = 0;

  constructor(deps: RunQueueDeps) {
    this.#deps = deps;
    this.claimMs = deps.leaseMs ?? CLAIM_MS;
    this.claims = new ClaimedRows(deps.db, 'workspace_runs', this.claimMs);
  }

  /** Returns the projects with queued runs that no server has claimed, in the order of their turns. */
  async waiting(): Promise<WaitingProject[]> {
    const rows = await this.#deps.db
      .selectFrom((from) =>
        from
          .selectFrom('workspace_runs')
          .where('status', '=', 'queued')
          .where('step', 'is', null)
          .groupBy(['org_id', 'project_id'])
          .select(({ fn }) => ['org_id', 'project_id', fn.min('queued_at').as('first')])
          .as('waiting'),
      )
      .leftJoin('workspace_run_turns as org', 'org.scope_id', 'waiting.org_id')
      .leftJoin('workspace_run_turns as project', 'project.scope_id', 'waiting.project_id')
      .select(['waiting.org_id', 'waiting.project_id'])
      .orderBy(({ fn, val }) => fn.coalesce('org.turn', val(0)))
      .orderBy(({ fn, val }) => fn.coalesce('project.turn', val(0)))
      .orderBy('waiting.first')
      .execute();
    return rows.map((row) => ({ orgId: row.org_id as OrgId, projectId: row.project_id as ProjectId }));
  }

  /**
   * Claims the first queued run of a project and records the turn. Returns `full` if the quota of concurrent runs has
   * no room, and undefined if no run is queued any more.
   */
  async claimFirst(
    { orgId, projectId }: WaitingProject,
    claim: string,
    now: number,
  ): Promise<WorkspaceRunRecord | 'full' | undefined> {
    const { quotas } = this.#deps;
    try {
      return await quotas.admit(
        { orgId, projectId },
        async (tx, requireRoom) => {
          await requireRoom({ concurrentWorkspaceRuns: 1 });
          const first = await firstOf(tx, projectId);
          if (first === undefined) return undefined;
          const row = await tx.db
            .updateTable('workspace_runs')
            .set({ step: 'launching', claimed_by: claim, claimed_until: now + this.claimMs })
            .where('id', '=', first)
            .where('status', '=', 'queued')
            .where('step', 'is', null)
            .returningAll()
            .executeTakeFirst();
          if (!row) return undefined;
          for (const scope of [orgId, projectId]) await noteTurn(tx, scope, this.#nextTurn(now));
          return toRecord(row);
        },
        { announces: false },
      );
    } catch (error) {
      if (error instanceof QuotaRefusal) return 'full';
      throw error;
    }
  }

  /** Claims the runs whose server has lost its claim. */
  async adopt(claim: string, now: number): Promise<WorkspaceRunRecord[]> {
    const rows = await this.#deps.db
      .updateTable('workspace_runs')
      .set({ claimed_by: claim, claimed_until: now + this.claimMs })
      .where('step', 'is not', null)
      .where((where) => where.or([where('claimed_by', 'is', null), where('claimed_until', '<=', now)]))
      .returningAll()
      .execute();
    return rows.map(toRecord);
  }

  /** Prolongs a claim. Returns all runs that it holds. */
  async renew(claim: string, now: number): Promise<WorkspaceRunRecord[]> {
    const { db, renewalDb = db } = this.#deps;
    const rows = await renewalDb
      .updateTable('workspace_runs')
      .set({ claimed_until: now + this.claimMs })
      .where('step', 'is not', null)
      .where('claimed_by', '=', claim)
      .returningAll()
      .execute();
    return rows.map(toRecord);
  }

  /** Returns a run whose sandbox could not be created to the queue. `attempt` is the number of its next sandbox. */
  async giveBack(run: WorkspaceRunRecord, claim: string, attempt: number): Promise<void> {
    await this.#deps.db
      .updateTable('workspace_runs')
      .set({ step: null, attempt, claimed_by: null, claimed_until: null })
      .where('id', '=', run.id)
      .where('status', '=', 'queued')
      .where('claimed_by', '=', claim)
      .execute();
  }

  /** Ends the claims of an earlier process of the server. */
  async releaseAllOf(serverId: string): Promise<void> {
    await this.claims.releaseAllOf(serverId);
  }

  /** Releases all runs of a claim, so that another server adopts them at once. */
  async release(claim: string): Promise<void> {
    await this.#deps.db
      .updateTable('workspace_runs')
      .set({ claimed_by: null, claimed_until: null })
      .where('step', 'is not', null)
      .where('claimed_by', '=', claim)
      .execute();
  }

  /** Returns a time later than the previous one, so that turns have an order. */
  #nextTurn(now: number): number {
    this.#lastTurn = Math.max(now, this.#lastTurn + 1);
    return this.#lastTurn;
  }
}

async function firstOf({ db }: Transaction, projectId: ProjectId): Promise<string | undefined> {
  const queued = db.selectFrom('workspace_runs').select('id').where('status', '=', 'queued').where('step', 'is', null);
  const first = queued.where('project_id', '=', projectId).orderBy('queued_at').orderBy('created_at').orderBy('id');
  return (await first.limit(1).executeTakeFirst())?.id;
}

async function noteTurn({ db }: Transaction, scope: string, turn: number): Promise<void> {
  await db
    .insertInto('workspace_run_turns')
    .values({ scope_id: scope, turn })
    .onConflict((conflict) => conflict.column('scope_id').doUpdateSet({ turn }))
    .execute();
}
