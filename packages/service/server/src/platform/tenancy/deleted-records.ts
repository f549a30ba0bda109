import { setImmediate } from 'node:timers/promises';
import { LIMITS } from '@cloche/contract';
import type { Database } from '../db/database.ts';
import type { Transactions } from '../db/transactions.ts';

/** Rows looked at by one statement; bounds how long other requests wait for the database. */
const BATCH = 100;

export interface Retentions {
  /** How long records, events and audit events are kept. */
  readonly recordMs: number;
  readonly eventMs: number;
  readonly auditMs: number;
}

/**
 * Deletes the rows of what clients have deleted, after its retention: secrets, webhooks, artifacts, templates and
 * projects. A project with usage stays, because usage is kept for good and is listed by project.
 */
export class DeletedRecords {
  readonly #db: Database;
  readonly #transactions: Transactions;
  readonly #retentions: Retentions;

  constructor(db: Database, transactions: Transactions, retentions: Retentions) {
    this.#db = db;
    this.#transactions = transactions;
    this.#retentions = retentions;
  }

  /** Deletes what was deleted long enough before `now`. Returns the number of rows. */
  async forget(now: number): Promise<number> {
    const before = now - this.#retentions.recordMs;
    let forgotten = 0;
    for (const table of ['secrets', 'artifacts'] as const) forgotten += await this.#forgetRows(table, before);
    forgotten += await this.#forgetEach(before, 'webhooks', (id) => this.#forgetWebhook(id));
    forgotten += await this.#forgetEach(before, 'custom_templates', (id) => this.#forgetTemplate(id));
    forgotten += await this.#forgetEach(this.#projectsBefore(now), 'projects', (id) => this.#forgetProject(id));
    return forgotten;
  }

  /**
   * A project stays until the last event, audit event and run that names it has gone, so that each can be listed by the
   * project. Nothing happens in a deleted project but the end of its artifacts, whose rows keep it.
   */
  #projectsBefore(now: number): number {
    const { recordMs, eventMs, auditMs } = this.#retentions;
    return now - Math.max(recordMs, eventMs, auditMs, LIMITS.workspaceRunEventsKeptMs);
  }

  async #forgetRows(table: 'secrets' | 'artifacts', before: number): Promise<number> {
    const old = this.#db.selectFrom(table).select('id').where('deleted_at', '<', before).limit(BATCH);
    for (let forgotten = 0; ; ) {
      const { numDeletedRows } = await this.#db.deleteFrom(table).where('id', 'in', old).executeTakeFirst();
      forgotten += Number(numDeletedRows);
      if (numDeletedRows < BATCH) return forgotten;
      await setImmediate();
    }
  }

  /** Calls `forget` for each deleted row. One that is still referred to stays for a later pass. */
  async #forgetEach(
    before: number,
    table: 'webhooks' | 'custom_templates' | 'projects',
    forget: (id: string) => Promise<boolean>,
  ): Promise<number> {
    let forgotten = 0;
    for (let after = ''; ; ) {
      const query = this.#db.selectFrom(table).select('id').where('deleted_at', '<', before).where('id', '>', after);
      const rows = await query.orderBy('id').limit(BATCH).execute();
      for (const { id } of rows) {
        if (await forget(id)) forgotten += 1;
        await setImmediate();
      }
      const last = rows.at(-1);
      if (rows.length < BATCH || !last) return forgotten;
      after = last.id;
    }
  }

  #forgetWebhook(id: string): Promise<boolean> {
    return this.#transactions.run(async ({ db }) => {
      await db.deleteFrom('webhook_deliveries').where('webhook_id', '=', id).execute();
      return (await db.deleteFrom('webhooks').where('id', '=', id).executeTakeFirst()).numDeletedRows > 0n;
    });
  }

  /** The rows of versions and builds end before: with their files, and after their own retention. */
  async #forgetTemplate(id: string): Promise<boolean> {
    const { numDeletedRows } = await this.#db
      .deleteFrom('custom_templates')
      .where('id', '=', id)
      .where(({ and, not, exists, selectFrom }) =>
        and(
          (['custom_template_versions', 'template_builds'] as const).map((table) =>
            not(exists(selectFrom(table).select('id').where('template_id', '=', id))),
          ),
        ),
      )
      .executeTakeFirst();
    return numDeletedRows > 0n;
  }

  #forgetProject(id: string): Promise<boolean> {
    return this.#transactions.run(async ({ db }) => {
      const { numDeletedRows } = await db
        .deleteFrom('projects')
        .where('id', '=', id)
        .where(({ and, not, exists, selectFrom }) =>
          and([
            ...(['sandboxes', 'previews', 'artifacts', 'secrets', 'webhooks', 'workspace_runs'] as const).map((table) =>
              not(exists(selectFrom(table).select('id').where('project_id', '=', id))),
            ),
            not(
              exists(
                selectFrom('usage_hours')
                  .select('hour')
                  .whereRef('usage_hours.org_id', '=', 'projects.org_id')
                  .where('usage_hours.project_id', '=', id),
              ),
            ),
          ]),
        )
        .executeTakeFirst();
      if (numDeletedRows === 0n) return false;
      for (const table of ['workspace_run_turns', 'quota_refusals', 'request_counts'] as const) {
        await db.deleteFrom(table).where('scope_id', '=', id).execute();
      }
      return true;
    });
  }
}
