import { text } from 'node:stream/consumers';
import type { Secret } from '@cloche/sdk';
import type { Command } from 'commander';
import { UsageError } from '../cli-error.ts';
import { group, leaf, perform } from '../command.ts';
import { askHidden } from '../hidden-line.ts';
import { type PageFlags, paged, showPage } from '../list-page.ts';
import { list } from '../option-values.ts';
import type { Session } from '../session.ts';
import { formatAge } from '../terminal/duration.ts';
import { fields, table } from '../terminal/table.ts';

interface Flags {
  hosts?: string[];
  project?: string;
  value?: boolean;
}

const HOSTS = 'hosts that receive the value, comma-separated: NAME, *.NAME or an IPv4 address';
const VALUE_HELP =
  '\nThe command reads the value from standard input and drops a newline at its end. On a terminal, it prompts for the value and hides what is typed.';

export function addSecretCommands(program: Command): void {
  const secret = group(program, 'secret', 'Values that sandboxes use without having them');

  const create = leaf(secret, 'create <name>', 'Create a secret and print its id', [
    'cloche secret create payments --hosts api.example.com < key-file',
  ])
    .requiredOption('--hosts <hosts>', HOSTS, list)
    .option('--project <id>', 'project (default: the default one)')
    .addHelpText('after', VALUE_HELP);
  perform(create, async (session, { hosts = [], project }: Flags, name: string) => {
    const value = await readValue(session);
    const created = await (await session.connect()).secrets.create(name, { value, hosts, projectId: project });
    await session.show(created, () => created.id);
  });

  const all = leaf(secret, 'list', 'List secrets, newest first').option('--project <id>', 'only of this project');
  perform(paged(all), async (session, { project, ...flags }: PageFlags & { project?: string }) => {
    const data = await (await session.connect()).secrets.list({ ...flags, projectId: project });
    const none = 'No secrets. `cloche secret create` creates one.';
    await showPage(session, data, () => table(data, COLUMNS, session.terminal.out), { none });
  });

  perform(leaf(secret, 'get <secret>', 'Show a secret without its value'), async (session, _options, id: string) => {
    await showSecret(session, await (await session.connect()).secrets.get(id));
  });

  const update = leaf(secret, 'update <secret>', 'Change the value or the hosts of a secret', [
    'cloche secret update sec_… --value < key-file',
    'cloche secret update sec_… --value --hosts api.example.com,api.example.org < key-file',
  ])
    .option('--value', 'read a new value')
    .option('--hosts <hosts>', `${HOSTS}; a new one needs --value`, list)
    .addHelpText('after', VALUE_HELP);
  perform(update, async (session, { hosts, value }: Flags, id: string) => {
    if (!hosts && !value) throw new UsageError('Give --value, --hosts or both.');
    const next = value ? await readValue(session) : undefined;
    await showSecret(session, await (await session.connect()).secrets.update(id, { value: next, hosts }));
  });

  const remove = leaf(secret, 'delete <secrets...>', 'Delete secrets and their values');
  perform(remove, async (session, _options, ids: string[]) => {
    const { secrets } = await session.connect();
    for (const id of ids) {
      const deleted = await secrets.delete(id);
      if (session.json) await session.show(deleted, () => '');
      await session.note(`${deleted.id} deleted`);
    }
  });
}

/** Reads a value, never from an argument, which other users of the machine could see. @throws {UsageError} if empty. */
async function readValue({ terminal }: Session): Promise<string> {
  const given = process.stdin.isTTY ? await askHidden('Value: ', terminal.err) : await text(process.stdin);
  const value = given.replace(/\r?\n$/, '');
  if (value === '') throw new UsageError('No value was given; type one, or pipe it in: … < key-file');
  return value;
}

const COLUMNS = [
  { title: 'ID', value: ({ id }: Secret) => id },
  { title: 'NAME', value: ({ name }: Secret) => name },
  { title: 'HOSTS', value: ({ hosts }: Secret) => hosts.join(', ') },
  { title: 'UPDATED', value: ({ updatedAt }: Secret) => formatAge(updatedAt) },
];

async function showSecret(session: Session, secret: Secret): Promise<void> {
  const { id, name, projectId, hosts, createdAt, updatedAt, deletedAt } = secret;
  await session.show(secret, () =>
    fields(
      [
        ['id', id],
        ['name', name],
        ['project', projectId],
        ['hosts', hosts.join(', ')],
        ['created', `${formatAge(createdAt)} (${createdAt})`],
        ['updated', `${formatAge(updatedAt)} (${updatedAt})`],
        ['deleted', deletedAt && `${formatAge(deletedAt)} (${deletedAt})`],
      ],
      session.terminal.out,
    ),
  );
}
