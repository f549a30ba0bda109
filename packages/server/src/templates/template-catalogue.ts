import type { Language } from '@cloche/contract';
import type { TemplateVersionManifest } from '@cloche/protocol';
import { invalidRequest, notFound } from '../base/app-error.ts';
import type { Clock } from '../base/clock.ts';
import type { RuntimeDriver } from '../driver/runtime-driver.ts';
import { type TemplateRecord, type TemplateVersionRecord, templateIdOf } from './template.ts';
import type { TemplateRepository } from './template-repository.ts';

export interface CatalogueEntry {
  readonly template: TemplateRecord;
  /** Newest first; never empty. */
  readonly versions: readonly [TemplateVersionRecord, ...TemplateVersionRecord[]];
}

export interface ResolvedVersion {
  readonly template: TemplateRecord;
  readonly version: TemplateVersionRecord;
}

/**
 * The template versions that sandboxes can be created from. Keeps the last known versions while the runtime does not
 * answer.
 */
export class TemplateCatalogue {
  readonly #templates: TemplateRepository;
  readonly #driver: RuntimeDriver;
  readonly #clock: Clock;
  #entries: readonly CatalogueEntry[] = [];

  constructor(templates: TemplateRepository, driver: RuntimeDriver, clock: Clock) {
    this.#templates = templates;
    this.#driver = driver;
    this.#clock = clock;
  }

  /** Loads all versions ever stored, so that creations are accepted before the runtime first answers. */
  async load(): Promise<void> {
    await this.#read(undefined);
  }

  /** Updates the catalogue to the runtime's versions. Idempotent; rejects when the runtime does not answer. */
  async sync(): Promise<void> {
    const manifests = await this.#driver.templateVersions();
    const known = new Set(this.#entries.flatMap(({ versions }) => versions.map(({ id }) => id as string)));
    const unchanged = known.size === manifests.length && manifests.every(({ id }) => known.has(id));
    if (unchanged) return;
    for (const [slug, versions] of Map.groupBy(manifests, (manifest) => manifest.slug)) {
      await this.#templates.save(this.#toTemplate(slug, versions), versions.map(toVersion));
    }
    await this.#read(new Set(manifests.map(({ id }) => id)));
  }

  list(): readonly CatalogueEntry[] {
    return this.#entries;
  }

  /** @param slugOrId throws `not_found` when there is no such template. */
  get(slugOrId: string): CatalogueEntry {
    const entry = this.#entries.find(({ template }) => template.slug === slugOrId || template.id === slugOrId);
    if (!entry) throw notFound('template', slugOrId);
    return entry;
  }

  /** Returns the pinned version, or the template's newest version. */
  resolve(slugOrId: string | undefined, versionId: string | undefined, defaultSlug: string): ResolvedVersion {
    if (versionId === undefined) {
      const { template, versions } = this.get(slugOrId ?? defaultSlug);
      return { template, version: versions[0] };
    }
    const named = slugOrId === undefined ? undefined : this.get(slugOrId);
    const pinned = this.#findVersion(versionId);
    if (!pinned) throw notFound('template version', versionId);
    if (named && named.template.id !== pinned.template.id) {
      const message = `is a version of "${pinned.template.slug}", not of "${named.template.slug}"; leave out this field or the template`;
      throw invalidRequest({ path: 'body.templateVersionId', message });
    }
    return pinned;
  }

  /** @throws AppError `invalid_request` naming `body.language` when the template is known not to have the language. */
  requireLanguage(templateId: string, language: Language): void {
    const languages = this.#entries.find(({ template }) => template.id === templateId)?.template.languages;
    if (!languages || languages.includes(language)) return;
    const message = `"${language}" is not available in this sandbox's template, which has ${languages.join(', ')}`;
    throw invalidRequest({ path: 'body.language', message });
  }

  #findVersion(versionId: string): ResolvedVersion | undefined {
    for (const { template, versions } of this.#entries) {
      const version = versions.find(({ id }) => id === versionId);
      if (version) return { template, version };
    }
    return undefined;
  }

  async #read(available: ReadonlySet<string> | undefined): Promise<void> {
    const templates = await this.#templates.list();
    const all = await this.#templates.listVersions();
    const usable = available ? all.filter(({ id }) => available.has(id)) : all;
    this.#entries = templates.flatMap((template) => {
      const [latest, ...older] = usable.filter(({ templateId }) => templateId === template.id);
      return latest ? [{ template, versions: [latest, ...older] as const }] : [];
    });
  }

  #toTemplate(slug: string, versions: readonly TemplateVersionManifest[]): TemplateRecord {
    const newest = versions.reduce((one, other) => (other.builtAt > one.builtAt ? other : one));
    const { description, languages } = newest;
    return { id: templateIdOf(slug), slug, description, languages, createdAt: this.#clock.now() };
  }
}

function toVersion(manifest: TemplateVersionManifest): TemplateVersionRecord {
  const { version, digest, packages } = manifest;
  return {
    // The runtime assigns ids; hostd's protocol checks their prefix.
    id: manifest.id as TemplateVersionRecord['id'],
    templateId: templateIdOf(manifest.slug),
    version,
    digest,
    packages,
    builtAt: Date.parse(manifest.builtAt),
  };
}
