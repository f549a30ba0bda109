import type { Command } from 'commander';
import { group, leaf, perform } from '../command.ts';
import { formatAge } from '../terminal/duration.ts';
import { table } from '../terminal/table.ts';

export function addTemplateCommands(program: Command): void {
  const template = group(program, 'template', 'List templates and their versions');

  perform(leaf(template, 'list', 'List the templates'), async (session) => {
    const templates = await (await session.connect()).templates.list();
    const { colors } = session.terminal.out;
    await session.show({ data: templates }, () =>
      table(
        templates,
        [
          { title: 'TEMPLATE', value: ({ slug }) => slug },
          { title: 'VERSION', value: ({ latestVersion }) => latestVersion },
          { title: 'LANGUAGES', value: ({ languages }) => languages.join(', ') },
          { title: 'DESCRIPTION', value: ({ description }) => description },
        ],
        colors,
      ),
    );
  });

  perform(
    leaf(template, 'versions <template>', 'List the versions of a template, newest first', [
      'cloche template versions python-node',
    ]),
    async (session, _options, slug: string) => {
      const versions = await (await session.connect()).templates.versions(slug);
      const { colors } = session.terminal.out;
      await session.show({ data: versions }, () =>
        table(
          versions,
          [
            { title: 'ID', value: ({ id }) => id },
            { title: 'VERSION', value: ({ version }) => version },
            { title: 'CREATED', value: ({ createdAt }) => formatAge(createdAt) },
            { title: 'PACKAGES', value: ({ packages }) => countPackages(packages) },
          ],
          colors,
        ),
      );
    },
  );
}

/** Returns a summary such as `214 apt, 31 pip`. */
function countPackages(packages: Record<string, Record<string, string>>): string {
  return Object.entries(packages)
    .map(([source, installed]) => `${Object.keys(installed).length} ${source}`)
    .join(', ');
}
