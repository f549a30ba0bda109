import type { TemplateVersionManifest } from '@cloche/protocol';
import type { Instances } from '@cloche/runtime';
import { type AppError, invalidRequest, unavailable } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import { type TemplateRecord, type TemplateVersionRecord, templateIdOf } from './template.ts';
import type { TemplateRepository } from './template-repository.ts';

export interface CatalogueEntry {
  readonly template: TemplateRecord;
  /** Newest first; never empty. */
  readonly versions: readonly [TemplateVersionRecord, ...TemplateVersionRecord[]];
}

/** A version that a sandbox can be created from. */
export interface ResolvedVersion {
  readonly template: Pick<TemplateRecord, 'id' | 'slug' | 'languages'>;
  readonly version: TemplateVersionRecord;
}

/**
 * The curated template versions, which every organization can create sandboxes from. Keeps the last known versions
 * while the runtime does not answer.
 */
export class TemplateCatalogue {
  readonly #templates: TemplateRepository;
  readonly #driver: Instances;
  readonly #clock: Clock;
  #entries: readonly CatalogueEntry[] = [];
  #asking: Promise<unknown> = Promise.resolve();
  #next: Promise<void> | undefined;

  constructor(templates: TemplateRepository, driver: Instances, clock: Clock) {
    this.#templates = templates;
    this.#driver = driver;
    this.#clock = clock;
  }

  /** Loads all versions ever stored, so that creations are accepted before the runtime first answers. */
  async load(): Promise<void> {
    await this.#read(undefined);
  }

  /**
   * Updates the catalogue to the versions that the runtime has when this is called, or later. Concurrent calls share
   * one request to the runtime. Idempotent; rejects when the runtime does not answer.
   */
  sync(): Promise<void> {
    this.#next ??= this.#asking.then(() => {
      this.#next = undefined;
      const asked = this.#ask();
      this.#asking = asked.catch(() => undefined);
      return asked;
    });
    return this.#next;
  }

  /** Does the same before a request is refused for what is not in the catalogue. @throws AppError `unavailable` */
  async syncBeforeRefusal(): Promise<void> {
    await this.sync().catch((cause) => {
      throw unavailable('The host did not report its templates; try again.', cause);
    });
  }

  async #ask(): Promise<void> {
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

  /** Returns a template by slug or id, or undefined. */
  findTemplate(slugOrId: string): CatalogueEntry | undefined {
    return this.#entries.find(({ template }) => template.slug === slugOrId || template.id === slugOrId);
  }

  /**
   * Returns the pinned version, or the template's newest version; undefined if one of the two is not in the catalogue.
   *
   * @throws AppError `invalid_request` for a version of another template
   */
  find(slugOrId: string | undefined, versionId: string | undefined, defaultSlug: string): ResolvedVersion | undefined {
    const entry = this.findTemplate(slugOrId ?? defaultSlug);
    if (versionId === undefined) return entry && { template: entry.template, version: entry.versions[0] };
    const pinned = this.findVersion(versionId);
    if (!pinned || slugOrId === undefined) return pinned;
    if (entry && entry.template.id !== pinned.template.id) throw versionOfAnother(pinned.template, entry.template);
    return entry && pinned;
  }

  findVersion(versionId: string): ResolvedVersion | undefined {
    for (const { template, versions } of this.#entries) {
      const version = versions.find(({ id }) => id === versionId);
      if (version) return { template, version };
    }
    return undefined;
  }

  /** Returns the languages of a template, or undefined for a template that is not in the catalogue. */
  languagesOf(templateId: string): readonly string[] | undefined {
    return this.#entries.find(({ template }) => template.id === templateId)?.template.languages;
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

type Named = Pick<TemplateRecord, 'slug'>;

export function versionOfAnother({ slug }: Named, wanted: Named): AppError {
  const message = `is a version of "${slug}", not of "${wanted.slug}"; leave out this field or the template`;
  return invalidRequest({ path: 'body.templateVersionId', message });
}

function toVersion(manifest: TemplateVersionManifest): TemplateVersionRecord {
  const { version, digest, packages } = manifest;
  return {
    // The runtime assigns ids; its driver checks their prefix.
    id: manifest.id as TemplateVersionRecord['id'],
    templateId: templateIdOf(manifest.slug),
    version,
    digest,
    packages,
    builtAt: Date.parse(manifest.builtAt),
  };
}
