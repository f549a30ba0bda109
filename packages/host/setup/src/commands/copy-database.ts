import { text } from 'node:stream/consumers';
import { CLEAR_LINE, leaf, perform, type Session, UsageError } from '@cloche/cli/kit';
import { type CopyProgress, CopyReport } from '@cloche/protocol';
import type { Command } from 'commander';
import { configuredDatabase, runDatabaseTask } from './database-client.ts';

interface CopyFlags {
  from?: string;
  to?: string;
}

export function addCopyDatabaseCommand(admin: Command): void {
  const copy = leaf(admin, 'copy-database', 'Copy all records from SQLite to PostgreSQL, while no server runs', [
    'cloche admin copy-database --to - < url-file',
    'CLOCHE_DATABASE_URL=postgres://… cloche admin copy-database',
  ])
    .option('--from <url>', 'the SQLite database (default: that of the data folder)')
    .option(
      '--to <url>',
      'the PostgreSQL database, without rows; - reads it from standard input (default: CLOCHE_DATABASE_URL)',
    );
  perform(copy, copyDatabase);
}

async function copyDatabase(session: Session, flags: CopyFlags): Promise<void> {
  const { serverDir, sqliteUrl, setUrl } = await configuredDatabase();
  const to = flags.to === '-' ? (await text(process.stdin)).trim() : (flags.to ?? setUrl);
  if (to === undefined) throw new UsageError('Name the PostgreSQL database: --to, or CLOCHE_DATABASE_URL.');
  if (flags.to !== undefined && hasPassword(flags.to)) {
    // Replaces the arguments in the list of processes.
    process.title = 'cloche admin copy-database';
    await session.note(
      'other users of this machine can see a password in an argument; use --to - or CLOCHE_DATABASE_URL',
    );
  }
  const { err } = session.terminal;
  const draw = async ({ step, table, rows, total }: CopyProgress) => {
    if (!err.isTerminal || session.json) return;
    const line = `${step === 'copy' ? 'copying' : 'verifying'} ${table}: ${rows} of ${total} rows`;
    await err.write(CLEAR_LINE + line.slice(0, err.columns - 1));
  };
  try {
    const task = { task: 'copy', from: flags.from ?? sqliteUrl, to, serverDir } as const;
    const report = await runDatabaseTask(task, CopyReport, draw);
    if (err.isTerminal) await err.write(CLEAR_LINE);
    await session.show(report, () => describe(report));
    await session.note(
      'set CLOCHE_DATABASE_URL to the target, and start the servers; the folder of the data stays in use',
    );
  } catch (error) {
    if (err.isTerminal) await err.write(CLEAR_LINE);
    throw error;
  }
}

function hasPassword(url: string): boolean {
  return (URL.parse(url)?.password ?? '') !== '' || /[?&]password=/.test(url);
}

function describe({ copied, rows, tables }: CopyReport): string {
  const done = copied ? 'copied and compared' : 'nothing to do: the target has exactly these rows, compared';
  return `${done}: ${rows} rows of ${tables.length} tables`;
}
