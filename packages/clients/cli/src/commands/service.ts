import type { Command } from 'commander';
import { UsageError } from '../cli-error.ts';
import { readClientFile, writeClientFile } from '../client-file.ts';
import { group, leaf, perform } from '../command.ts';
import { table } from '../terminal/table.ts';

/** Name in tables of the service that is saved without one. */
export const UNNAMED = 'default';

interface ShownService {
  readonly name: string;
  readonly url: string;
}

export function addServiceCommands(program: Command): void {
  const service = group(program, 'service', 'List and delete the services that `cloche login` has saved');
  perform(leaf(service, 'list', 'List the saved services', ['cloche service list']), async (session) => {
    const { url, services } = await readClientFile();
    const named = Object.entries(services).map(([name, saved]) => ({ name, url: saved.url ?? '' }));
    const data: ShownService[] = url === undefined ? named : [{ name: UNNAMED, url }, ...named];
    if (data.length === 0 && !session.json) return session.note('No services. `cloche login` saves one.');
    const columns = [
      { title: 'NAME', value: ({ name }: ShownService) => name },
      { title: 'URL', value: (one: ShownService) => one.url },
    ];
    await session.show({ data }, () => table(data, columns, session.terminal.out));
  });
  const remove = leaf(service, 'delete <name>', 'Forget a saved service and its key', ['cloche service delete prod']);
  perform(remove, async (session, _options, name: string) => {
    const { services, ...unnamed } = await readClientFile();
    const isUnnamed = name === UNNAMED && unnamed.url !== undefined;
    if (!isUnnamed && !Object.hasOwn(services, name))
      throw new UsageError(`No service is saved as "${name}"; \`cloche service list\` shows those that are.`);
    const { [name]: _deleted, ...others } = services;
    await writeClientFile(isUnnamed ? { services } : { ...unnamed, services: others });
    if (session.json) await session.show({ name }, () => '');
    await session.note(`${name} deleted`);
  });
}
