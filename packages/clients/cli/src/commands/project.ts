import type { Project, ProjectQuotas } from '@cloche/sdk';
import type { Command } from 'commander';
import { UsageError } from '../cli-error.ts';
import { group, leaf, perform } from '../command.ts';
import { type PageFlags, paged, showPage } from '../list-page.ts';
import { keyValue, quota } from '../option-values.ts';
import type { Session } from '../session.ts';
import { formatAge } from '../terminal/duration.ts';
import { labelsText } from '../terminal/labels-text.ts';
import { fields, type TableOutput, table } from '../terminal/table.ts';

interface ProjectFlags {
  name?: string;
  metadata?: Record<string, string>;
  quota?: ProjectQuotas;
}

export function addProjectCommands(program: Command): void {
  const project = group(program, 'project', 'Create, list, change and delete projects');

  const create = leaf(project, 'create <name>', 'Create a project and print its id', [
    'cloche project create billing --metadata team=payments',
    'cloche sandbox create --project $(cloche project create trial --quota liveSandboxes=2)',
  ])
    .option('--metadata <key=value>', 'label; repeatable', keyValue)
    .option('--quota <name=number>', 'limit of the project, or NAME=none; repeatable', quota);
  perform(create, async (session, { metadata, quota: quotas }: ProjectFlags, name: string) => {
    const created = await (await session.connect()).projects.create(name, { metadata, quotas });
    await session.show(created, () => created.id);
  });

  const list = leaf(project, 'list', 'List projects').option('-a, --all', 'include deleted projects');
  perform(paged(list), listProjects);

  perform(leaf(project, 'get <project>', 'Show a project'), async (session, _options, id: string) => {
    const found = await (await session.connect()).projects.get(id);
    await session.show(found, () => describe(found, session.terminal.out));
  });

  const update = leaf(project, 'update <project>', 'Change a project', [
    'cloche project update prj_… --name payments',
    'cloche project update prj_… --quota liveSandboxes=20 --quota previews=none',
  ])
    .option('--name <name>', 'new name')
    .option('--metadata <key=value>', 'label; repeatable; replaces all labels', keyValue)
    .option('--quota <name=number>', 'limit of the project, or NAME=none; repeatable; replaces all limits', quota);
  perform(update, async (session, { name, metadata, quota: quotas }: ProjectFlags, id: string) => {
    if (!name && !metadata && !quotas) throw new UsageError('Give --name, --metadata or --quota.');
    const changed = await (await session.connect()).projects.update(id, { name, metadata, quotas });
    await session.show(changed, () => describe(changed, session.terminal.out));
  });

  const remove = leaf(project, 'delete <projects...>', 'Delete projects without live sandboxes').addHelpText(
    'after',
    '\nThe artifacts of a deleted project stay readable. The default project cannot be deleted.',
  );
  perform(remove, async (session, _options, ids: string[]) => {
    const { projects } = await session.connect();
    for (const id of ids) {
      const deleted = await projects.delete(id);
      if (session.json) await session.show(deleted, () => '');
      await session.note(`${deleted.id} deleted`);
    }
  });
}

async function listProjects(session: Session, { all, ...flags }: PageFlags & { all?: boolean }): Promise<void> {
  const data = await (await session.connect()).projects.list({ ...flags, include: all ? 'deleted' : undefined });
  const columns = [
    { title: 'ID', value: ({ id }: Project) => id },
    { title: 'NAME', value: ({ name }: Project) => name },
    { title: 'STATE', value: stateOf },
    { title: 'CREATED', value: ({ createdAt }: Project) => formatAge(createdAt) },
    { title: 'METADATA', value: ({ metadata }: Project) => labelsText(metadata) },
  ];
  await showPage(session, data, () => table(data, columns, session.terminal.out));
}

function describe(project: Project, out: TableOutput): string {
  const { metadata, quotas, createdAt, updatedAt, deletedAt } = project;
  return fields(
    [
      ['id', project.id],
      ['name', project.name],
      ['state', stateOf(project)],
      ['quotas', labelsText(quotas, 'none') || undefined],
      ['metadata', labelsText(metadata) || undefined],
      ['created', `${formatAge(createdAt)} (${createdAt})`],
      ['updated', `${formatAge(updatedAt)} (${updatedAt})`],
      ['deleted', deletedAt && `${formatAge(deletedAt)} (${deletedAt})`],
    ],
    out,
  );
}

function stateOf({ isDefault, deletedAt }: Project): string {
  if (deletedAt !== undefined) return 'deleted';
  return isDefault ? 'default' : 'open';
}
