import {
  type CreateTemplateBody,
  ID_PREFIXES,
  LIMITS,
  type Template,
  type TemplateVersion,
  type UpdateTemplateBody,
} from '@cloche/contract';
import { AppError, invalidRequest, notFound } from '../../../platform/base/app-error.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import type { IdSource } from '../../../platform/base/id-source.ts';
import type { Call } from '../../../platform/call/call.ts';
import type { Transaction, Transactions } from '../../../platform/db/transactions.ts';
import type { Credential } from '../../../platform/keys/credential.ts';
import type { EventOutbox } from '../../../platform/outbox/event-outbox.ts';
import { lockOrganization } from '../../../platform/tenancy/lock-organization.ts';
import { insertLimited } from '../../quotas/limited-insert.ts';
import {
  type CustomTemplateRecord,
  deleted,
  toOwnTemplate,
  toOwnVersion,
} from '../../template-catalogue/custom/custom-template.ts';
import type { CustomTemplateRepository } from '../../template-catalogue/custom/custom-template-repository.ts';
import { toTemplate, toTemplateVersion } from '../../template-catalogue/template.ts';
import type { CatalogueEntry, TemplateCatalogue } from '../../template-catalogue/template-catalogue.ts';
import type { BuildRepository } from '../builds/build-repository.ts';
import type { BuildRecord } from '../builds/template-build.ts';
import type { BuildService } from './build-service.ts';

export interface TemplateServiceDeps {
  readonly catalogue: TemplateCatalogue;
  readonly templates: CustomTemplateRepository;
  readonly builds: BuildRepository;
  readonly buildService: BuildService;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly clock: Clock;
  readonly ids: IdSource;
}

interface Created {
  readonly template: CustomTemplateRecord;
  readonly build: BuildRecord;
}

/**
 * Creates, lists, changes and deletes the templates of organizations. Also lists the curated templates, which clients
 * cannot change.
 */
export class TemplateService {
  readonly #deps: TemplateServiceDeps;

  constructor(deps: TemplateServiceDeps) {
    this.#deps = deps;
  }

  /**
   * Creates one template and its first build per idempotency record.
   *
   * @throws AppError `conflict` for a slug that is taken, `invalid_request`, `not_found`, `forbidden`, `quota_exceeded`
   */
  async create(call: Call, body: CreateTemplateBody): Promise<Created> {
    const { catalogue, templates, builds, buildService, transactions, outbox, clock, ids } = this.#deps;
    const { credential, idempotency, audit } = call;
    requireWholeOrganization(credential);
    const { orgId } = credential;
    const idempotencyRecordId = idempotency?.recordId;
    const { slug, description = '', ...recipe } = body;
    if (catalogue.findTemplate(slug)) throw slugTaken(slug, 'is that of a curated template');
    const planned = await buildService.plan(call, recipe);
    const { languages } = planned.plan.settings;
    const template = { id: ids.next(ID_PREFIXES.template), orgId, slug, description, languages, idempotencyRecordId };
    return transactions.run(async (tx) => {
      const insert = async (): Promise<Created> => {
        if (await templates.find(orgId, slug, tx)) throw slugTaken(slug, 'is taken in this organization');
        const inserted = await templates.insert(template, clock.now(), tx);
        const build = await buildService.insert(inserted, planned, undefined, tx);
        await audit?.append(tx, { id: inserted.id });
        const data = { template: toOwnTemplate(inserted, undefined) };
        await outbox.append(tx, { type: 'template.created', orgId, data });
        return { template: inserted, build };
      };
      const findEarlier = async (recordId: string): Promise<Created | undefined> => {
        const earlier = await templates.findByIdempotencyRecord(recordId, tx);
        const build = earlier && (await builds.findFirst(earlier.id, tx));
        return build && { template: earlier, build };
      };
      const result = await insertLimited<Created>(tx, {
        orgId,
        projectId: undefined,
        table: 'custom_templates',
        limit: LIMITS.templatesPerOrganization,
        requireRoom: async () => undefined,
        idempotencyRecordId,
        findEarlier,
        insert,
      });
      if (result.status === 'full') throw tooMany(result.used);
      return result.row;
    });
  }

  /** Returns the curated templates and those of the organization, by slug. */
  async list({ credential: { orgId } }: Call): Promise<Template[]> {
    const { catalogue, templates } = this.#deps;
    const versions = await templates.listVersions(orgId);
    const own = (await templates.list(orgId)).map((template) =>
      toOwnTemplate(
        template,
        versions.find(({ templateId }) => templateId === template.id),
      ),
    );
    const all = [...catalogue.list().map((entry) => toTemplate(entry.template, entry.versions[0])), ...own];
    return all.toSorted((one, other) => (one.slug < other.slug ? -1 : 1));
  }

  /** Returns a template, also a deleted one if it is named by its id. @throws AppError `not_found` */
  async get(call: Call, slugOrId: string): Promise<Template> {
    const found = await this.find(call, slugOrId);
    return 'versions' in found ? toTemplate(found.template, found.versions[0]) : this.#toTemplate(found);
  }

  /** @throws AppError `not_found` */
  async versions(call: Call, slugOrId: string): Promise<TemplateVersion[]> {
    const found = await this.find(call, slugOrId);
    if ('versions' in found) return found.versions.map((version) => toTemplateVersion(found.template, version));
    const versions = await this.#deps.templates.listVersions(call.credential.orgId, found.id);
    return versions.map((version) => toOwnVersion(found, version));
  }

  /**
   * Sets the given fields. @throws AppError `not_found`, also for a deleted template; `forbidden`, `invalid_request`
   */
  async update(call: Call, slugOrId: string, { description, defaultVersionId }: UpdateTemplateBody): Promise<Template> {
    const { templates } = this.#deps;
    const { orgId } = call.credential;
    const template = await this.getOwn(call, slugOrId);
    const defaultVersion =
      defaultVersionId === undefined ? undefined : await templates.findVersion(orgId, defaultVersionId, template.id);
    if (defaultVersionId !== undefined && !defaultVersion) throw noSuchVersion(template);
    const updated = await templates.update(call, template.id, { description, defaultVersion });
    if (updated === 'version_removed') throw noSuchVersion(template);
    if (!updated) throw deleted(template);
    return this.#toTemplate(updated);
  }

  /** Idempotent by id. @throws AppError `conflict` while it is in use, `not_found`, `forbidden` */
  async delete(call: Call, slugOrId: string): Promise<Template> {
    const { templates, transactions, outbox, clock } = this.#deps;
    const template = await this.getOwn(call, slugOrId);
    const { id, orgId } = template;
    await transactions.run(async (tx) => {
      await lockOrganization(tx, orgId);
      await this.#requireUnused(template, tx);
      const deleted = await templates.delete(id, clock.now(), tx);
      if (!deleted) return;
      await call.audit?.append(tx, { id });
      await outbox.append(tx, {
        type: 'template.deleted',
        orgId,
        data: { template: toOwnTemplate(deleted, undefined) },
      });
    });
    return this.get(call, id);
  }

  /** @throws AppError `not_found`; `unavailable` for an unknown one while the runtime does not answer */
  async find({ credential: { orgId } }: Call, slugOrId: string): Promise<CatalogueEntry | CustomTemplateRecord> {
    const { catalogue, templates } = this.#deps;
    const found = catalogue.findTemplate(slugOrId) ?? (await templates.find(orgId, slugOrId));
    if (found) return found;
    await catalogue.syncBeforeRefusal();
    const added = catalogue.findTemplate(slugOrId);
    if (!added) throw notFound('template', slugOrId);
    return added;
  }

  /** Returns a template of the organization that the key may change. @throws AppError `not_found`, `forbidden` */
  async getOwn(call: Call, slugOrId: string): Promise<CustomTemplateRecord> {
    const found = await this.find(call, slugOrId);
    if ('versions' in found) {
      throw new AppError('forbidden', `The template "${found.template.slug}" is curated; create a template from it.`);
    }
    requireWholeOrganization(call.credential);
    return found;
  }

  async #toTemplate(template: CustomTemplateRecord): Promise<Template> {
    const [latest] = await this.#deps.templates.listVersions(template.orgId, template.id);
    return toOwnTemplate(template, latest);
  }

  async #requireUnused({ id, orgId, slug }: CustomTemplateRecord, tx: Transaction): Promise<void> {
    const { templates, builds } = this.#deps;
    const made = await templates.countMadeFrom(id, tx);
    if (made > 0) {
      const message = `${made} other templates are made from "${slug}"; delete them or build them from another template first.`;
      throw new AppError('conflict', message, { details: { templates: made } });
    }
    const unfinished = await builds.countUnfinished(tx, orgId, id);
    if (unfinished > 0 || (await builds.isStartedFrom(id, tx))) {
      const message = `A build uses the template "${slug}"; wait for its end or cancel it.`;
      throw new AppError('conflict', message, { details: { builds: Math.max(1, unfinished) } });
    }
  }
}

/** Templates belong to the whole organization. @throws AppError `forbidden` */
export function requireWholeOrganization({ projectIds }: Credential): void {
  if (projectIds === undefined) return;
  const message = 'Templates belong to the whole organization, and this API key is bound to projects; use another key.';
  throw new AppError('forbidden', message);
}

function noSuchVersion({ slug }: CustomTemplateRecord): AppError {
  const message = `must be the id of a version of "${slug}" that exists`;
  return invalidRequest({ path: 'body.defaultVersionId', message });
}

function slugTaken(slug: string, why: string): AppError {
  return new AppError('conflict', `The slug "${slug}" ${why}; choose another body.slug.`);
}

function tooMany(used: number): AppError {
  const limit = LIMITS.templatesPerOrganization;
  const message = `The organization has ${used} templates, and its limit is ${limit}; delete some first.`;
  return new AppError('quota_exceeded', message, { details: { quota: 'templates', limit, used } });
}
