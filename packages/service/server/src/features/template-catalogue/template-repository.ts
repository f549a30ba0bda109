import type { TemplateId, TemplateVersionId } from '@cloche/contract';
import type { Selectable } from 'kysely';
import type { Database } from '../../platform/db/database.ts';
import type { TemplateTable, TemplateVersionTable } from '../../platform/db/tables/template-tables.ts';
import type { TemplateRecord, TemplateVersionRecord } from './template.ts';

export interface TemplateRepository {
  /** Returns all templates, ordered by slug. */
  list(): Promise<TemplateRecord[]>;
  /** Returns all versions, newest first. */
  listVersions(): Promise<TemplateVersionRecord[]>;
  /** Idempotent. A later save replaces the description and languages. */
  save(template: TemplateRecord, versions: readonly TemplateVersionRecord[]): Promise<void>;
}

export class SqlTemplateRepository implements TemplateRepository {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  async list(): Promise<TemplateRecord[]> {
    const rows = await this.#db.selectFrom('templates').selectAll().orderBy('slug').execute();
    return rows.map(toTemplateRecord);
  }

  async listVersions(): Promise<TemplateVersionRecord[]> {
    const query = this.#db.selectFrom('template_versions').selectAll().orderBy('built_at', 'desc');
    const rows = await query.orderBy('seq', 'desc').execute();
    return rows.map(toVersionRecord);
  }

  async save(template: TemplateRecord, versions: readonly TemplateVersionRecord[]): Promise<void> {
    const { description } = template;
    const languages = JSON.stringify(template.languages);
    await this.#db.transaction().execute(async (trx) => {
      await trx
        .insertInto('templates')
        .values({ id: template.id, slug: template.slug, description, languages, created_at: template.createdAt })
        .onConflict((conflict) => conflict.column('id').doUpdateSet({ description, languages }))
        .execute();
      for (const version of versions) {
        await trx
          .insertInto('template_versions')
          .values({
            id: version.id,
            template_id: version.templateId,
            version: version.version,
            digest: version.digest,
            packages: JSON.stringify(version.packages),
            built_at: version.builtAt,
          })
          // A version is immutable: the first save is kept.
          .onConflict((conflict) => conflict.doNothing())
          .execute();
      }
    });
  }
}

function toTemplateRecord(row: Selectable<TemplateTable>): TemplateRecord {
  return {
    id: row.id as TemplateId,
    slug: row.slug,
    description: row.description,
    languages: JSON.parse(row.languages),
    createdAt: row.created_at,
  };
}

function toVersionRecord(row: Selectable<TemplateVersionTable>): TemplateVersionRecord {
  return {
    id: row.id as TemplateVersionId,
    templateId: row.template_id as TemplateId,
    version: row.version,
    digest: row.digest,
    packages: JSON.parse(row.packages),
    builtAt: row.built_at,
  };
}
