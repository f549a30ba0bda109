/**
 * `cloche template export`, `refresh` and `revert`: curated templates in the cache of this machine. They need no running
 * service. What they do is loaded late, because `cloche template list` and others of a client are beside them.
 */
import { leaf, perform } from '@cloche/cli/kit';
import type { Command } from 'commander';

const load = () => import('./template-work.ts');

/** Adds the commands to the group `cloche template`. */
export function addCuratedTemplateCommands(template: Command): void {
  const before = new Set(template.commands);
  const exporting = leaf(
    template,
    'export <file> [templates...]',
    'Write curated templates and guest files for a machine without registries (root)',
    [
      'cloche template export cloche-templates.tar',
      'cloche template import cloche-templates.tar   # on the other machine',
    ],
  );
  perform(exporting, async (session, _options, file: string, slugs: string[]) =>
    (await load()).exportArchive(session, file, slugs),
  );

  const refresh = leaf(
    template,
    'refresh [templates...]',
    'Build curated templates anew, with the packages of today; sandboxes keep their version (root)',
    ['cloche template refresh', 'cloche template refresh python-node'],
  );
  perform(refresh, async (session, _options, slugs: string[]) => (await load()).refreshTemplates(session, slugs));

  const revert = leaf(
    template,
    'revert <template> [version]',
    'Make an earlier version of a curated template the newest one again (root)',
    ['cloche template revert python-node', 'cloche template revert python-node tplv_…'],
  );
  perform(revert, async (session, _options, slug: string, version?: string) =>
    (await load()).revertTemplate(session, slug, version),
  );
  for (const command of template.commands) {
    if (!before.has(command)) command.helpGroup('Curated templates of this machine:');
  }
}
