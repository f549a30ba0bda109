import type { TemplateVersionManifest } from '@cloche/protocol';

/** Returns the manifest of a template version, as a builder would write it. */
export function fakeManifest(
  slug: string,
  { build = 1, builtAt = '2026-01-01T00:00:00.000Z' }: { build?: number; builtAt?: string } = {},
): TemplateVersionManifest {
  const digest = `${Buffer.from(slug).toString('hex')}${build}`.padEnd(64, '0');
  return {
    id: `tplv_${slug.replaceAll('-', '')}${build}`,
    slug,
    description: `The ${slug} template.`,
    version: `2026.01.0${build}-${digest.slice(0, 8)}`,
    digest,
    languages: slug === 'node' ? ['javascript', 'typescript'] : ['python', 'javascript', 'typescript'],
    packages: { apt: { git: '1:2.39' } },
    builtAt,
  };
}
