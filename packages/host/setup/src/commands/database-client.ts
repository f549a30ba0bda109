import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { CliError } from '@cloche/cli/kit';
import { dataPaths } from '@cloche/layout';
import { type CopyProgress, DatabaseMessage, type DatabaseTask } from '@cloche/protocol';
import type { Static, TSchema } from 'typebox';

const PROGRAM = fileURLToPath(new URL('../../../../service/server/src/database-program.ts', import.meta.url));

/** The server's database, by the configuration of this host. */
export interface ConfiguredDatabase {
  readonly serverDir: string;
  /** SQLite in the folder of the server. */
  readonly sqliteUrl: string;
  /** `CLOCHE_DATABASE_URL`, if it is set. */
  readonly setUrl: string | undefined;
}

export async function configuredDatabase(): Promise<ConfiguredDatabase> {
  // Loaded late, because no other command needs the settings of a host.
  const { effectiveSettings } = await import('@cloche/settings');
  const values = new Map(effectiveSettings(process.env).map(({ name, value }) => [name, value]));
  const { serverDir, sqliteFile } = dataPaths(values.get('CLOCHE_DATA_DIR') ?? '');
  return { serverDir, sqliteUrl: `sqlite:${sqliteFile}`, setUrl: values.get('CLOCHE_DATABASE_URL') };
}

/**
 * Runs a task of the server's program for databases. An interrupt of the terminal ends the program, too.
 *
 * @throws {CliError} with the reason if it fails
 */
export async function runDatabaseTask<S extends TSchema>(
  task: DatabaseTask,
  answer: S,
  onProgress: (progress: CopyProgress) => Promise<void> = async () => undefined,
): Promise<Static<S>> {
  if (!existsSync(PROGRAM)) {
    throw new CliError('The server is not installed beside this command; run it on the host of the service.');
  }
  // Loaded late, because only these commands need it.
  const { Value } = await import('typebox/value');
  const child = spawn(process.execPath, [PROGRAM], { stdio: ['pipe', 'pipe', 'inherit'] });
  // A program that ends early does not read its input.
  child.stdin.on('error', () => undefined);
  child.stdin.end(JSON.stringify(task));
  const ended = once(child, 'exit');
  // Awaited only after the last line.
  ended.catch(() => undefined);
  for await (const line of createInterface({ input: child.stdout, crlfDelay: Number.POSITIVE_INFINITY })) {
    const message = Value.Parse(DatabaseMessage, JSON.parse(line));
    if ('progress' in message) await onProgress(message.progress);
    else if ('failed' in message) throw new CliError(sentence(message.failed));
    else return Value.Parse(answer, message.done);
  }
  const [code, signal] = await ended;
  throw new CliError(`The program for databases ended with ${signal ?? code}; nothing was changed, so run it again.`);
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
