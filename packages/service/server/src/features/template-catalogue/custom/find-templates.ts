import type { Language, OrgId, TemplateId } from '@cloche/contract';
import { AppError, invalidRequest, notFound } from '../../../platform/base/app-error.ts';
import { type ResolvedVersion, type TemplateCatalogue, versionOfAnother } from '../template-catalogue.ts';
import type { CustomTemplateRecord } from './custom-template.ts';
import type { CustomTemplateRepository } from './custom-template-repository.ts';

/**
 * Finds template versions for sandboxes. Curated versions are in memory. Versions of the organization are read from the
 * database, so that every server can use a version as soon as its build is committed. If neither has the version, the
 * runtime is asked, because it may have got the version a moment ago and other servers may already know it.
 */
export class FindTemplates {
  readonly catalogue: TemplateCatalogue;
  readonly #custom: CustomTemplateRepository;

  constructor(catalogue: TemplateCatalogue, custom: CustomTemplateRepository) {
    this.catalogue = catalogue;
    this.#custom = custom;
  }

  /**
   * Returns the pinned version, or else the current version of the template. Curated versions need no query.
   *
   * @throws AppError `not_found`, also for a template without a version; `invalid_request` for a version of another
   * template; `unavailable` for an unknown template while the runtime does not answer
   */
  resolve(
    orgId: OrgId,
    slugOrId: string | undefined,
    versionId: string | undefined,
    defaultSlug: string,
  ): ResolvedVersion | Promise<ResolvedVersion> {
    const findCurated = () => this.catalogue.find(slugOrId, versionId, defaultSlug);
    const slug = slugOrId ?? (versionId === undefined ? defaultSlug : undefined);
    return (
      findCurated() ??
      this.#resolveCustom(orgId, slug, versionId).catch(async (error) => {
        if (!(error instanceof AppError && error.code === 'not_found')) throw error;
        await this.catalogue.syncBeforeRefusal();
        const added = findCurated();
        if (!added) throw error;
        return added;
      })
    );
  }

  /**
   * @throws AppError `invalid_request` naming `body.language` when the version of the sandbox is known not to have the
   *   language; `unavailable` while the runtime does not answer and the template is not known to have it
   */
  async requireLanguage(
    sandbox: { readonly orgId: OrgId; readonly templateId: TemplateId; readonly templateVersionId: string },
    language: Language,
  ): Promise<void> {
    const known = this.catalogue.languagesOf(sandbox.templateId);
    if (known?.includes(language)) return;
    // A newer version of the template may have added the language.
    if (known) await this.catalogue.syncBeforeRefusal();
    const languages =
      this.catalogue.languagesOf(sandbox.templateId) ??
      (await this.#custom.findVersion(sandbox.orgId, sandbox.templateVersionId))?.languages;
    if (!languages || languages.includes(language)) return;
    const message = `"${language}" is not available in this sandbox's template, which has ${languages.join(', ')}`;
    throw invalidRequest({ path: 'body.language', message });
  }

  async #resolveCustom(
    orgId: OrgId,
    slugOrId: string | undefined,
    versionId: string | undefined,
  ): Promise<ResolvedVersion> {
    const named = slugOrId === undefined ? undefined : await this.#requireOpen(orgId, slugOrId);
    const wanted = versionId ?? named?.defaultVersionId;
    if (wanted === undefined) {
      throw new AppError(
        'not_found',
        `The template "${named?.slug}" has no version yet; wait for its build to succeed.`,
      );
    }
    const curated = this.catalogue.findVersion(wanted);
    if (curated && named) throw versionOfAnother(curated.template, named);
    const version =
      (named && (await this.#custom.findVersion(orgId, wanted, named.id))) ??
      (await this.#custom.findVersion(orgId, wanted));
    const template = version && (await this.#custom.find(orgId, version.templateId));
    if (!version || !template || template.deletedAt !== undefined) throw notFound('template version', wanted);
    if (named && named.id !== template.id) throw versionOfAnother(template, named);
    return { template, version };
  }

  async #requireOpen(
    orgId: OrgId,
    slugOrId: string,
  ): Promise<Pick<CustomTemplateRecord, 'id' | 'slug' | 'defaultVersionId'>> {
    const curated = this.catalogue.findTemplate(slugOrId);
    if (curated) return { ...curated.template, defaultVersionId: undefined };
    const found = await this.#custom.find(orgId, slugOrId);
    if (!found || found.deletedAt !== undefined) throw notFound('template', slugOrId);
    return found;
  }
}
