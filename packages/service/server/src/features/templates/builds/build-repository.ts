import type { OrgId, SandboxId, TemplateBuildId, TemplateId, TemplateVersionId } from '@cloche/contract';
import { sql } from 'kysely';
import type { Changes } from '../../../platform/base/changes.ts';
import type { Database } from '../../../platform/db/database.ts';
import { laterThanAll } from '../../../platform/db/later-than-all.ts';
import { type ListPart, NEWEST_FIRST, readPart } from '../../../platform/db/list-part.ts';
import type { TemplateBuildTable } from '../../../platform/db/tables/template-tables.ts';
import type { Transaction } from '../../../platform/db/transactions.ts';
import { lockOrganization } from '../../../platform/tenancy/lock-organization.ts';
import type { Plan } from '../../template-catalogue/recipe/plan.ts';
import {
  BUILD_COLUMNS,
  type BuildFailure,
  type BuildRecord,
  type StepState,
  toBuildRecord,
  UNFINISHED,
} from './template-build.ts';

export type NewBuild = Pick<BuildRecord, 'id' | 'orgId' | 'templateId' | 'templateSlug' | 'fromVersionId' | 'steps'> & {
  readonly plan: Plan;
  readonly idempotencyRecordId: string | undefined;
};

/** The end of a build. */
export type BuildEnding =
  | { readonly status: 'succeeded'; readonly templateVersionId: TemplateVersionId }
  | { readonly status: 'failed'; readonly error: BuildFailure }
  | { readonly status: 'canceled' };

/** Stores builds. Each change of the status is a compare-and-set. */
export class BuildRepository {
  readonly #db: Database;
  readonly #changes: Changes<TemplateBuildId>;

  constructor(db: Database, changes: Changes<TemplateBuildId>) {
    this.#db = db;
    this.#changes = changes;
  }

  async insert(build: NewBuild, now: number, tx: Transaction): Promise<BuildRecord> {
    const values = {
      id: build.id,
      org_id: build.orgId,
      template_id: build.templateId,
      template_slug: build.templateSlug,
      status: 'queued',
      plan: JSON.stringify(build.plan),
      from_version_id: build.fromVersionId,
      steps: JSON.stringify(build.steps),
      launches: 0,
      failures: 0,
      sandbox_id: null,
      template_version_id: null,
      error: null,
      created_at: laterThanAll({ table: 'template_builds', list: 'template_id' }, build.templateId, now),
      started_at: null,
      finished_at: null,
      next_attempt_at: now,
      claimed_by: null,
      claimed_until: null,
      idempotency_record_id: build.idempotencyRecordId ?? null,
    };
    const insert = tx.db.insertInto('template_builds').values(values).returning(BUILD_COLUMNS);
    return toBuildRecord(await insert.executeTakeFirstOrThrow());
  }

  async find(orgId: OrgId, templateId: TemplateId, id: string): Promise<BuildRecord | undefined> {
    const query = this.#db.selectFrom('template_builds').select(BUILD_COLUMNS).where('id', '=', id);
    const row = await query.where('org_id', '=', orgId).where('template_id', '=', templateId).executeTakeFirst();
    return row && toBuildRecord(row);
  }

  async findById(id: TemplateBuildId): Promise<BuildRecord | undefined> {
    const row = await this.#db
      .selectFrom('template_builds')
      .select(BUILD_COLUMNS)
      .where('id', '=', id)
      .executeTakeFirst();
    return row && toBuildRecord(row);
  }

  /**
   * Returns a build while `claim` holds it; undefined if another process has claimed it. Launches that the record counts
   * were thus begun before the claim, or under it.
   */
  async findClaimed(id: TemplateBuildId, claim: string): Promise<BuildRecord | undefined> {
    const query = this.#db.selectFrom('template_builds').select(BUILD_COLUMNS).where('id', '=', id);
    const row = await query.where('claimed_by', '=', claim).executeTakeFirst();
    return row && toBuildRecord(row);
  }

  async findByIdempotencyRecord(recordId: string, { db }: Transaction): Promise<BuildRecord | undefined> {
    const query = db.selectFrom('template_builds').select(BUILD_COLUMNS).where('idempotency_record_id', '=', recordId);
    const row = await query.executeTakeFirst();
    return row && toBuildRecord(row);
  }

  /** Returns the first build of a template: the one of its creation. */
  async findFirst(templateId: TemplateId, { db }: Transaction): Promise<BuildRecord | undefined> {
    const query = db.selectFrom('template_builds').select(BUILD_COLUMNS).where('template_id', '=', templateId);
    const row = await query.orderBy('created_at').orderBy('id').executeTakeFirst();
    return row && toBuildRecord(row);
  }

  /** Returns a part of the builds of a template, newest first. */
  async list(templateId: TemplateId, part: ListPart): Promise<BuildRecord[]> {
    const query = this.#db.selectFrom('template_builds').select(BUILD_COLUMNS).where('template_id', '=', templateId);
    return (await readPart(query, NEWEST_FIRST, part)).map(toBuildRecord);
  }

  async planOf(id: TemplateBuildId): Promise<Plan> {
    const query = this.#db.selectFrom('template_builds').select('plan').where('id', '=', id);
    return JSON.parse((await query.executeTakeFirstOrThrow()).plan);
  }

  /** Counts the builds of an organization, or of one of its templates, that have not ended. */
  async countUnfinished({ db }: Transaction, orgId: OrgId, templateId?: TemplateId): Promise<number> {
    let query = db.selectFrom('template_builds').where('org_id', '=', orgId).where('status', 'in', UNFINISHED);
    if (templateId !== undefined) query = query.where('template_id', '=', templateId);
    return Number(
      (await query.select(({ fn }) => fn.countAll<number>().as('builds')).executeTakeFirstOrThrow()).builds,
    );
  }

  /** Returns whether an unfinished build of another template starts from a version of this one. */
  async isStartedFrom(templateId: TemplateId, { db }: Transaction): Promise<boolean> {
    const versions = db.selectFrom('custom_template_versions').select('id').where('template_id', '=', templateId);
    const query = db.selectFrom('template_builds').select('id').where('template_id', '!=', templateId);
    const started = query.where('status', 'in', UNFINISHED).where('from_version_id', 'in', versions);
    return (await started.limit(1).executeTakeFirst()) !== undefined;
  }

  /**
   * Returns builds to begin, to resume or to clean up after, in their order. Those that are running or have ended come
   * first. The others are ordered so that organizations take turns: first by how many builds of the organization run or
   * come before, then by when a build of the organization last began. Leaves out those that wait because `atOnce` builds
   * of their organization run.
   */
  async listDue(now: number, atOnce: number, limit: number): Promise<BuildRecord[]> {
    const ofSameOrg = (of: string) =>
      this.#db.selectFrom('template_builds as other').whereRef('other.org_id', '=', sql.ref(`${of}.org_id`));
    const due = this.#db
      .selectFrom('template_builds as build')
      .select(BUILD_COLUMNS)
      .select(({ fn }) => [
        fn
          .agg<number>('row_number')
          .over((over) => over.partitionBy(['org_id', 'status']).orderBy('created_at').orderBy('id'))
          .as('position'),
        ofSameOrg('build')
          .where('other.status', '=', 'running')
          .where('other.finished_at', 'is', null)
          .select(({ fn }) => fn.countAll<number>().as('running'))
          .as('running'),
      ])
      .where(({ or, eb }) => or([eb('finished_at', 'is', null), eb('claimed_by', 'is not', null)]))
      .where(({ or, eb }) => or([eb('claimed_by', 'is', null), eb('claimed_until', '<=', now)]))
      .where('next_attempt_at', '<=', now);
    const rows = await this.#db
      .selectFrom(due.as('due'))
      .selectAll()
      .where(({ or, eb }) => or([eb('status', '!=', 'queued'), eb('running', '<', atOnce)]))
      .orderBy(sql`case when status = 'queued' then position + running else 0 end`)
      .orderBy(sql`coalesce((${ofSameOrg('due').select(({ fn }) => fn.max('other.started_at').as('at'))}), 0)`)
      .orderBy('created_at')
      .orderBy('id')
      .limit(limit)
      .execute();
    return rows.map(toBuildRecord);
  }

  /** Counts the running builds of an organization. Other transactions that call this wait until the end of `tx`. */
  async countRunning(tx: Transaction, orgId: OrgId, except: TemplateBuildId): Promise<number> {
    await lockOrganization(tx, orgId);
    const { builds } = await tx.db
      .selectFrom('template_builds')
      .where('org_id', '=', orgId)
      .where('status', '=', 'running')
      .where('id', '!=', except)
      .select(({ fn }) => fn.countAll<number>().as('builds'))
      .executeTakeFirstOrThrow();
    return Number(builds);
  }

  /** Marks a build as running. Returns undefined if it has ended, or is no longer claimed by `claim`. */
  begin({ id, startedAt }: BuildRecord, claim: string, now: number, tx: Transaction): Promise<BuildRecord | undefined> {
    return this.#set(id, { status: 'running', started_at: startedAt ?? now }, tx, claim);
  }

  /**
   * Records that another sandbox is about to be created. Returns undefined if the build has ended, or is no longer
   * claimed by `claim`.
   */
  async beginLaunch({ id, launches }: BuildRecord, claim: string): Promise<BuildRecord | undefined> {
    return this.#set(id, { launches: launches + 1 }, undefined, claim);
  }

  /** Sets fields of a build. Returns undefined if it has ended, or is no longer claimed by `claim`. */
  async update(
    id: TemplateBuildId,
    claim: string,
    { steps, sandboxId }: { readonly steps?: readonly StepState[]; readonly sandboxId?: SandboxId },
  ): Promise<BuildRecord | undefined> {
    const change = {
      ...(steps && { steps: JSON.stringify(steps) }),
      ...(sandboxId === undefined ? {} : { sandbox_id: sandboxId }),
    };
    return this.#set(id, change, undefined, claim);
  }

  /**
   * Makes a build wait after a fault of the service. Returns undefined if it has ended, or is no longer claimed by
   * `claim`.
   */
  postpone({ id, failures }: BuildRecord, claim: string, until: number): Promise<BuildRecord | undefined> {
    return this.#set(id, { next_attempt_at: until, failures: failures + 1 }, undefined, claim);
  }

  /** Ends a build. Returns undefined if it has ended already, or `claim` is given and no longer holds it. */
  async end(
    id: TemplateBuildId,
    ending: BuildEnding,
    now: number,
    tx: Transaction,
    claim?: string,
  ): Promise<BuildRecord | undefined> {
    const ended = await this.#set(
      id,
      {
        status: ending.status,
        plan: '{}',
        finished_at: now,
        ...(ending.status === 'succeeded' ? { template_version_id: ending.templateVersionId } : {}),
        ...(ending.status === 'failed' ? { error: JSON.stringify(ending.error) } : {}),
      },
      tx,
      claim,
    );
    tx.afterCommit(() => this.#changes.notify(id));
    return ended;
  }

  async #set(
    id: TemplateBuildId,
    change: Partial<TemplateBuildTable>,
    tx?: Transaction,
    claim?: string,
  ): Promise<BuildRecord | undefined> {
    const update = (tx?.db ?? this.#db)
      .updateTable('template_builds')
      .set(change)
      .where('id', '=', id)
      .$if(claim !== undefined, (query) => query.where('claimed_by', '=', claim ?? ''));
    const row = await update.where('status', 'in', UNFINISHED).returning(BUILD_COLUMNS).executeTakeFirst();
    return row && toBuildRecord(row);
  }
}
