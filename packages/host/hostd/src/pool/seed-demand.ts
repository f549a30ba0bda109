import type { LaunchSpec } from '@cloche/protocol';
import type { LaunchableVersions } from '../storage/launchable-versions.ts';
import type { TemplateVersion } from '../storage/templates.ts';
import type { Demand } from './demand.ts';

/**
 * Seeds the pool with what a creation without options gets: the newest version of each template, with an open network.
 */
export async function seedDemand(
  demand: Demand,
  templates: LaunchableVersions,
  resources: LaunchSpec['resources'],
): Promise<void> {
  const versions = await templates.listBuilt();
  const captured = templates.listCaptured().map(({ id }) => id);
  demand.keepTemplates(new Set([...versions.map(({ manifest }) => manifest.id), ...captured]));
  const newest = newestVersions(versions).map(({ manifest }) => manifest.id);
  demand.seed(newest.map((templateVersionId) => ({ templateVersionId, network: 'open', resources })));
}

/** Returns the newest version of each template. */
function newestVersions(versions: readonly TemplateVersion[]): TemplateVersion[] {
  const newest = new Map<string, TemplateVersion>();
  for (const version of versions) {
    const { slug, builtAt } = version.manifest;
    const known = newest.get(slug);
    if (known === undefined || Date.parse(known.manifest.builtAt) < Date.parse(builtAt)) newest.set(slug, version);
  }
  return [...newest.values()];
}
