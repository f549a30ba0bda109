import { createHash } from 'node:crypto';
import type { Resources, Template, TemplateId, TemplateVersion, TemplateVersionId } from '@cloche/contract';
import { timestamp } from '../../platform/base/clock.ts';

export interface TemplateRecord {
  readonly id: TemplateId;
  readonly slug: string;
  readonly description: string;
  readonly languages: readonly string[];
  readonly createdAt: number;
}

export interface TemplateVersionRecord {
  readonly id: TemplateVersionId;
  readonly templateId: TemplateId;
  readonly version: string;
  readonly digest: string;
  readonly packages: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Resources of sandboxes whose request does not name them. */
  readonly resources?: Resources;
  readonly builtAt: number;
}

/** Derives the id from the slug, so that a template has the same id in every installation. */
export function templateIdOf(slug: string): TemplateId {
  // The cast adds the brand; only the prefix is checked elsewhere.
  return `tpl_${createHash('sha256').update(slug).digest('hex').slice(0, 20)}` as TemplateId;
}

export function toTemplate(template: TemplateRecord, latest: TemplateVersionRecord): Template {
  return {
    id: template.id,
    slug: template.slug,
    description: template.description,
    languages: [...template.languages],
    latestVersion: latest.version,
    latestVersionId: latest.id,
    defaultVersionId: latest.id,
    createdAt: timestamp(template.createdAt),
  };
}

export function toTemplateVersion(template: TemplateRecord, version: TemplateVersionRecord): TemplateVersion {
  return {
    id: version.id,
    templateId: template.id,
    templateSlug: template.slug,
    version: version.version,
    digest: version.digest,
    packages: version.packages,
    createdAt: timestamp(version.builtAt),
  };
}
