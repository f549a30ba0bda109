import type { OrgId, TemplateId, TemplateVersionId } from '@cloche/contract';
import type { Audited } from '../../../platform/call/call.ts';
import type { Database } from '../../../platform/db/database.ts';
import { locksRows } from '../../../platform/db/row-locks.ts';
import type { CustomTemplateTable } from '../../../platform/db/tables/template-tables.ts';
import type { Transaction, Transactions } from '../../../platform/db/transactions.ts';
import {
  type CustomTemplateRecord,
  type CustomVersionRecord,
  toCustomTemplate,
  toCustomVersion,
} from './custom-template.ts';

export type NewCustomTemplate = Omit<CustomTemplateRecord, 'defaultVersionId' | 'createdAt' | 'deletedAt'> & {
  readonly idempotencyRecordId: string | undefined;
};

/** Stores the templates of organizations and their versions. Deleted templates are kept. */
export class CustomTemplateRepository {
  readonly #db: Database;
  readonly #transactions: Transactions;

  constructor(db: Database, transactions: Transactions) {
    this.#db = db;
    this.#transactions = transactions;
  }

  async insert(template: NewCustomTemplate, now: number, { db }: Transaction): Promise<CustomTemplateRecord> {
    const values = {
      id: template.id,
      org_id: template.orgId,
      slug: template.slug,
      description: template.description,
      languages: JSON.stringify(template.languages),
      default_version_id: null,
      created_at: now,
      deleted_at: null,
      idempotency_record_id: template.idempotencyRecordId ?? null,
    };
    return toCustomTemplate(
      await db.insertInto('custom_templates').values(values).returningAll().executeTakeFirstOrThrow(),
    );
  }

  async findByIdempotencyRecord(recordId: string, { db }: Transaction): Promise<CustomTemplateRecord | undefined> {
    const query = db.selectFrom('custom_templates').selectAll().where('idempotency_record_id', '=', recordId);
    const row = await query.executeTakeFirst();
    return row && toCustomTemplate(row);
  }

  /** Finds a template of the organization by its id, also a deleted one, or by its slug. */
  async find(orgId: OrgId, slugOrId: string, tx?: Transaction): Promise<CustomTemplateRecord | undefined> {
    const row = await (tx?.db ?? this.#db)
      .selectFrom('custom_templates')
      .selectAll()
      .where('org_id', '=', orgId)
      .where(({ or, and, eb }) =>
        or([eb('id', '=', slugOrId), and([eb('slug', '=', slugOrId), eb('deleted_at', 'is', null)])]),
      )
      .executeTakeFirst();
    return row && toCustomTemplate(row);
  }

  /** Returns the templates that are not deleted, by slug. */
  async list(orgId: OrgId): Promise<CustomTemplateRecord[]> {
    const query = this.#db.selectFrom('custom_templates').selectAll().where('org_id', '=', orgId);
    return (await query.where('deleted_at', 'is', null).orderBy('slug').execute()).map(toCustomTemplate);
  }

  /**
   * Returns the versions that can be used, newest first. Without `templateId`, returns those of all templates of the
   * organization.
   */
  async listVersions(orgId: OrgId, templateId?: TemplateId): Promise<CustomVersionRecord[]> {
    let query = this.#usable(orgId);
    if (templateId !== undefined) query = query.where('template_id', '=', templateId);
    return (await query.orderBy('built_at', 'desc').orderBy('id', 'desc').execute()).map(toCustomVersion);
  }

  /** Finds a version that can be used. Templates with equal contents have a version with the same id. */
  async findVersion(orgId: OrgId, id: string, templateId?: TemplateId): Promise<CustomVersionRecord | undefined> {
    let query = this.#usable(orgId).where('id', '=', id);
    if (templateId !== undefined) query = query.where('template_id', '=', templateId);
    const row = await query.orderBy('built_at').orderBy('template_id').executeTakeFirst();
    return row && toCustomVersion(row);
  }

  /** Sets the given fields. Returns undefined for a deleted template. Changes nothing if `defaultVersion` is removed. */
  update(
    { audit }: Audited,
    id: TemplateId,
    {
      description,
      defaultVersion,
    }: { description?: string | undefined; defaultVersion?: CustomVersionRecord | undefined },
  ): Promise<CustomTemplateRecord | 'version_removed' | undefined> {
    return this.#transactions.run(async (tx) => {
      await lockTemplate(tx, id);
      if (defaultVersion && !(await isUsable(tx, defaultVersion))) return 'version_removed';
      const updated = await this.#set(tx, id, {
        ...(description === undefined ? {} : { description }),
        ...(defaultVersion && defaultOf(defaultVersion)),
      });
      if (updated) await audit?.append(tx, { id });
      return updated;
    });
  }

  /**
   * Makes a version the default of its template, and inserts it if it is new. Call it only after the host has made the
   * version again: otherwise its files may already have been removed.
   */
  async addVersion(version: CustomVersionRecord, tx: Transaction): Promise<void> {
    // Done first, because the removal of versions locks the template.
    await this.#set(tx, version.templateId, defaultOf(version));
    await tx.db
      .insertInto('custom_template_versions')
      .values({
        id: version.id,
        org_id: version.orgId,
        template_id: version.templateId,
        build_id: version.buildId,
        from_version_id: version.fromVersionId,
        version: version.version,
        digest: version.digest,
        manifest: JSON.stringify(version.manifest),
        packages: JSON.stringify(version.packages),
        resources: JSON.stringify(version.resources ?? {}),
        layers: version.layers,
        size_bytes: version.sizeBytes,
        built_at: version.builtAt,
        removed_at: null,
      })
      .onConflict((conflict) => conflict.columns(['template_id', 'id']).doUpdateSet({ removed_at: null }))
      .execute();
  }

  /** Marks a template as deleted. Returns undefined if it is deleted already. */
  delete(id: TemplateId, now: number, tx: Transaction): Promise<CustomTemplateRecord | undefined> {
    return this.#set(tx, id, { deleted_at: now });
  }

  /** Returns the number of other existing templates that have a version built from a version of this template. */
  async countMadeFrom(id: TemplateId, { db }: Transaction): Promise<number> {
    const versions = db.selectFrom('custom_template_versions').select('id').where('template_id', '=', id);
    const made = db
      .selectFrom('custom_template_versions')
      .innerJoin('custom_templates', 'custom_templates.id', 'custom_template_versions.template_id')
      .where('custom_template_versions.template_id', '!=', id)
      .where('custom_template_versions.removed_at', 'is', null)
      .where('custom_templates.deleted_at', 'is', null)
      .where('custom_template_versions.from_version_id', 'in', versions);
    const { templates } = await made
      .select(({ fn }) => fn.count<number>('custom_templates.id').distinct().as('templates'))
      .executeTakeFirstOrThrow();
    return Number(templates);
  }

  #usable(orgId: OrgId) {
    const query = this.#db.selectFrom('custom_template_versions').selectAll().where('org_id', '=', orgId);
    return query.where('removed_at', 'is', null);
  }

  async #set(
    { db }: Transaction,
    id: TemplateId,
    change: Partial<CustomTemplateTable>,
  ): Promise<CustomTemplateRecord | undefined> {
    const query = db.selectFrom('custom_templates').selectAll().where('id', '=', id).where('deleted_at', 'is', null);
    if (Object.keys(change).length > 0) {
      const update = db.updateTable('custom_templates').set(change).where('id', '=', id);
      const row = await update.where('deleted_at', 'is', null).returningAll().executeTakeFirst();
      return row && toCustomTemplate(row);
    }
    const row = await query.executeTakeFirst();
    return row && toCustomTemplate(row);
  }
}

/** Waits for a removal of versions of the template, and keeps others waiting until the end of the transaction. */
export async function lockTemplate({ db }: Pick<Transaction, 'db'>, id: string): Promise<void> {
  const template = db.selectFrom('custom_templates').select('id').where('id', '=', id);
  if (locksRows(db)) await template.forNoKeyUpdate().execute();
}

async function isUsable({ db }: Transaction, { id, templateId }: CustomVersionRecord): Promise<boolean> {
  const version = db.selectFrom('custom_template_versions').select('id').where('id', '=', id);
  const usable = version.where('template_id', '=', templateId).where('removed_at', 'is', null);
  return (await usable.executeTakeFirst()) !== undefined;
}

function defaultOf(version: CustomVersionRecord): { default_version_id: TemplateVersionId; languages: string } {
  return { default_version_id: version.id, languages: JSON.stringify(version.languages) };
}
