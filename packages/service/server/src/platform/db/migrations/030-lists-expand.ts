import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

/**
 * Indexes the lists by their order, each without what it does not show, and finds what was deleted by the time of its
 * deletion.
 */
export const lists: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    const index = (name: string) => db.schema.createIndex(name);
    const order: ('org_id' | 'created_at' | 'id')[] = ['org_id', 'created_at', 'id'];
    const isKept = sql<boolean>`deleted_at is null`;
    await index('sandboxes_unended')
      .on('sandboxes')
      .columns(order)
      .where(sql<boolean>`status not in ('destroyed', 'failed')`)
      .execute();
    for (const table of ['projects', 'secrets', 'webhooks', 'previews', 'artifacts'] as const) {
      await index(`${table}_kept`).on(table).columns(order).where(isKept).execute();
    }
    await index('projects_org_created').on('projects').columns(order).execute();
    await index('api_keys_kept').on('api_keys').columns(order).where(sql<boolean>`revoked_at is null`).execute();
    await index('artifacts_sandbox').on('artifacts').columns(['sandbox_id', 'created_at', 'id']).execute();
    await index('code_contexts_created').on('code_contexts').columns(['sandbox_id', 'created_at', 'id']).execute();
    for (const table of ['projects', 'secrets', 'webhooks', 'artifacts'] as const) {
      const isDeleted = sql<boolean>`deleted_at is not null`;
      await index(`${table}_deleted`).on(table).column('deleted_at').where(isDeleted).execute();
    }
    const isRevoked = sql<boolean>`revoked_at is not null`;
    await index('api_keys_revoked').on('api_keys').column('revoked_at').where(isRevoked).execute();
  },
};
