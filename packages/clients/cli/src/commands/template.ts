import type { Command } from 'commander';
import { group, leaf, perform } from '../command.ts';
import { loadHostCommand } from '../host-commands.ts';
import { type PageFlags, paged, showPage } from '../list-page.ts';
import { formatAge } from '../terminal/duration.ts';
import { table } from '../terminal/table.ts';
import { addTemplateBuildCommand } from './template-build.ts';
import { addTemplateImportCommand } from './template-import.ts';
import { addTemplateLogCommands } from './template-log.ts';

/** Loads the commands for templates, with those for the curated templates of this machine. */
export async function templateCommands(): Promise<(program: Command) => void> {
  const addCurated = await loadHostCommand('template');
  return (program) => {
    const template = group(program, 'template', 'Templates: what sandboxes start with');
    addTemplateCommands(template);
    addCurated(template);
  };
}

function addTemplateCommands(template: Command): void {
  addTemplateBuildCommand(template);
  addTemplateImportCommand(template);

  perform(paged(leaf(template, 'list', 'List the templates')), async (session, flags: PageFlags) => {
    const templates = await (await session.connect()).templates.list(flags);
    const { out } = session.terminal;
    await showPage(session, templates, () =>
      table(
        templates,
        [
          { title: 'TEMPLATE', value: ({ slug }) => slug },
          { title: 'VERSION', value: ({ latestVersion }) => latestVersion ?? '-' },
          { title: 'LANGUAGES', value: ({ languages }) => languages.join(', ') },
          { title: 'DESCRIPTION', value: ({ description }) => description },
        ],
        out,
      ),
    );
  });

  perform(
    paged(
      leaf(template, 'versions <template>', 'List the versions of a template, newest first', [
        'cloche template versions python-node',
      ]),
    ),
    async (session, flags: PageFlags, slug: string) => {
      const versions = await (await session.connect()).templates.versions(slug, flags);
      const { out } = session.terminal;
      await showPage(session, versions, () =>
        table(
          versions,
          [
            { title: 'ID', value: ({ id }) => id },
            { title: 'VERSION', value: ({ version }) => version },
            { title: 'CREATED', value: ({ createdAt }) => formatAge(createdAt) },
            { title: 'PACKAGES', value: ({ packages }) => countPackages(packages) },
          ],
          out,
        ),
      );
    },
  );

  addTemplateLogCommands(template);
  const remove = leaf(template, 'delete <templates...>', 'Delete templates; sandboxes of them keep running');
  perform(remove, async (session, _options, slugs: string[]) => {
    const { templates } = await session.connect();
    for (const slug of slugs) {
      const deleted = await templates.delete(slug);
      if (session.json) await session.show(deleted, () => '');
      await session.note(`${deleted.slug} deleted`);
    }
  });
}

/** Returns a summary such as `214 apt, 31 pip`. */
function countPackages(packages: Record<string, Record<string, string>>): string {
  return Object.entries(packages)
    .map(([source, installed]) => `${Object.keys(installed).length} ${source}`)
    .join(', ');
}
