import { leaf, perform } from '@cloche/cli/kit';
import { MigrationReport } from '@cloche/protocol';
import type { Command } from 'commander';
import { configuredDatabase, runDatabaseTask } from './database-client.ts';

export function addMigrateCommand(program: Command): void {
  const migrate = leaf(program, 'migrate', 'Migrate the database of this installation to this version', [
    'cloche migrate',
    'CLOCHE_DATABASE_URL=postgres://… cloche migrate --json',
  ]);
  perform(migrate, async (session) => {
    const { serverDir, sqliteUrl, setUrl } = await configuredDatabase();
    const task = { task: 'migrate', databaseUrl: setUrl ?? sqliteUrl, serverDir } as const;
    const report = await runDatabaseTask(task, MigrationReport);
    await session.show(report, () => describe(report).join('\n'));
  });
}

function describe({ schema, applied, waiting, newer }: MigrationReport): string[] {
  return [
    ...applied.map((name) => `applied ${name}`),
    ...waiting.map((name) => `${name} waits until no older server lives; run \`cloche migrate\` again then`),
    ...newer.map((name) => `${name} is of a newer version, and this version works with it`),
    ...(applied.length === 0 && waiting.length === 0 ? [`nothing to do: the database has the schema ${schema}`] : []),
  ];
}
