import type { Templates } from '@cloche/sdk';
import type { Command } from 'commander';
import { CliError } from '../cli-error.ts';
import { leaf, perform } from '../command.ts';
import { watchForInterruption } from '../interruption.ts';
import { type PageFlags, paged, showPage } from '../list-page.ts';
import { withRaw } from '../option-values.ts';
import type { Session } from '../session.ts';
import { formatAge } from '../terminal/duration.ts';
import { jsonLine } from '../terminal/printable.ts';
import { statusColor } from '../terminal/status-color.ts';
import { table } from '../terminal/table.ts';

/** Adds the commands about builds that were begun before. */
export function addTemplateLogCommands(template: Command): void {
  perform(
    paged(leaf(template, 'builds <template>', 'List the builds of a template, newest first')),
    async (session, flags: PageFlags, slug: string) => {
      const builds = await (await session.connect()).templates.builds(slug, flags);
      await showPage(session, builds, () =>
        table(
          builds,
          [
            { title: 'ID', value: ({ id }) => id },
            {
              title: 'STATUS',
              value: ({ status }) => status,
              style: (cell, { status }, colors) => statusColor(status, colors)(cell),
            },
            { title: 'CREATED', value: ({ createdAt }) => formatAge(createdAt) },
            { title: 'STEPS', value: ({ steps }) => String(steps.length) },
            { title: 'VERSION', value: ({ templateVersionId }) => templateVersionId ?? '-' },
          ],
          session.terminal.out,
        ),
      );
    },
  );

  const logs = leaf(template, 'logs <template> [build]', 'Print the log of a build (default: the newest)', [
    'cloche template logs report',
    'cloche template logs report bld_… -f',
  ]).option('-f, --follow', 'print new output until the build has ended');
  perform(withRaw(logs), printLogs);

  const cancel = leaf(template, 'cancel <template> [build]', 'End a build (default: the newest)');
  perform(cancel, async (session, _options, slug: string, given?: string) => {
    const { templates } = await session.connect();
    const build = await templates.cancelBuild(slug, given ?? (await newestBuild(templates, slug)));
    await session.show(build, () => `${build.id} ${build.status}`);
  });
}

async function printLogs(session: Session, flags: { follow?: boolean }, slug: string, given?: string): Promise<void> {
  using interruption = watchForInterruption({ follows: flags.follow ?? false });
  const { signal } = interruption;
  const { out } = session.terminal;
  const { templates } = await session.connect();
  const build = given ?? (await newestBuild(templates, slug));
  const print = (entry: { data: string }) => (session.json ? out.line(jsonLine(entry)) : out.program(entry.data));
  if (flags.follow) {
    for await (const event of templates.followBuild(slug, build, { signal }))
      if (event.type === 'log') await print(event.data);
    return;
  }
  for (let afterSeq = 0, hasMore = true; hasMore; ) {
    const page = await templates.buildLogs(slug, build, { afterSeq, limit: 1000, signal });
    for (const entry of page.data) await print(entry);
    ({ nextSeq: afterSeq, hasMore } = page);
  }
}

async function newestBuild(templates: Templates, slug: string): Promise<string> {
  const [newest] = await templates.builds(slug, { limit: 1 });
  if (!newest) throw new CliError(`${slug} has no builds; start one with \`cloche template build --slug ${slug}\`.`);
  return newest.id;
}
