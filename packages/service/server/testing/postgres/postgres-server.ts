/** A PostgreSQL server of the tests' own: in a temporary folder, on a Unix socket alone, thrown away afterwards. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { eventually } from '@cloche/testkit/eventually';
import { Client } from 'pg';
import { migrate } from '../../src/platform/db/migrate.ts';
import { openDatabase } from '../../src/platform/db/open-database.ts';
import { installPostgres, PROGRAMS } from './install-postgres.ts';

const run = promisify(execFile);

/** Environment variable that passes the server's folder of sockets to the test files. */
export const SOCKETS = 'TEST_POSTGRES_SOCKETS';
/** Database with all tables, which the databases of tests are copied from. */
export const TEMPLATE = 'cloche_template';
/** Owner of all databases. Not a superuser, so that tests need no more rights than an operator gives. */
export const OWNER = 'cloche';

/**
 * Ends the server and removes its folder when the standard input closes, which also happens when the test runner is
 * killed. Arguments: the folder, then the command of the server. Every process of the group gets the signal, also an
 * `initdb` that is under way. Each line of the standard input is a signal that stops the server, which then starts again.
 */
const SUPERVISOR =
  'folder=$1; shift; "$@" >"$folder/log" 2>&1 & ' +
  'while read -r signal; do kill -s "$signal" $!; wait $!; "$@" >>"$folder/log" 2>&1 & done; ' +
  'trap "" QUIT; kill -QUIT 0; wait; rm -rf "$folder"';
/** Arguments: the folder of the programs, the folder of the data, then the options of the server. */
const SERVER =
  'programs=$1; data=$2; shift 2; ' +
  '[ -e "$data" ] || "$programs/initdb" --pgdata="$data" --username=postgres --auth=trust --no-sync ' +
  // Unlike a comparison of bytes, this order of texts ignores case and punctuation at first.
  '--encoding=UTF8 --locale=C.UTF-8 --locale-provider=icu --icu-locale=en-US && exec "$programs/postgres" -D "$data" "$@"';

/**
 * Arguments: the folder of the programs, the folder of the data, the sockets of the primary, then the options of the
 * server.
 */
const STANDBY =
  'programs=$1; data=$2; primary=$3; shift 3; ' +
  '[ -e "$data" ] || "$programs/pg_basebackup" --pgdata="$data" --host="$primary" --username=postgres ' +
  '--write-recovery-conf --wal-method=stream --checkpoint=fast --no-sync && ' +
  'exec "$programs/postgres" -D "$data" "$@"';

const OPTIONS: Readonly<Record<string, string>> = {
  listen_addresses: '',
  // Several test files run ten servers each at a time, and a server takes up to 18 connections.
  max_connections: '800',
  shared_buffers: '64MB',
  // A crash of the machine may lose the databases; they are only for tests.
  fsync: 'off',
  full_page_writes: 'off',
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_wal_size: '128MB',
  autovacuum: 'off',
  // Finds code that relies on the default of the server.
  default_transaction_isolation: 'serializable',
};

/** Options of a server that has a standby, and of the standby. */
const REPLICATED: Readonly<Record<string, string>> = {
  wal_level: 'replica',
  max_wal_senders: '4',
  // A standby permits no other.
  default_transaction_isolation: 'repeatable read',
};

type Options = Readonly<Record<string, string>>;

/** `fast` finishes with a checkpoint; after `immediate` the server recovers as after a crash. Both cut connections. */
export type Shutdown = 'fast' | 'immediate';
const SIGNALS: Readonly<Record<Shutdown, string>> = { fast: 'INT', immediate: 'QUIT' };

export interface PostgresServer {
  /** Folder of the socket. */
  readonly sockets: string;
  /** Stops the server, and starts it on the same data. Resolves when it accepts connections again. */
  restart(shutdown: Shutdown): Promise<void>;
  close(): Promise<void>;
}

/**
 * Starts a server, and installs PostgreSQL first if it is missing.
 *
 * @param changed options in place of those that speed up tests
 * @throws Error if it cannot be installed
 */
export async function startPostgres(changed: Options = {}): Promise<PostgresServer> {
  return start(SERVER, [], { ...OPTIONS, ...changed }, prepare);
}

/** Starts a server that can have standbys. */
export async function startPrimary(): Promise<PostgresServer> {
  return startPostgres(REPLICATED);
}

/** Starts a server that repeats what `primary` commits, until it is promoted by `select pg_promote()`. */
export async function startStandby(primary: PostgresServer): Promise<PostgresServer> {
  const serves = async (folder: string) => (await openSuperuser(folder)).end();
  return start(STANDBY, [primary.sockets], { ...OPTIONS, ...REPLICATED }, serves);
}

/** @param serves resolves when the server with this folder of sockets can be used */
async function start(
  script: string,
  given: readonly string[],
  settings: Options,
  serves: (folder: string) => Promise<void>,
): Promise<PostgresServer> {
  await installPostgres();
  const folder = await mkdtemp(join(tmpdir(), 'cloche-postgres-'));
  const asUser = await unprivileged(folder);
  const options = Object.entries({ ...settings, unix_socket_directories: folder }).map(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ]);
  const server = [...asUser, 'sh', '-c', script, 'sh', PROGRAMS, join(folder, 'data'), ...given, ...options.flat()];
  // A group of its own: an interrupt of the terminal ends the test runner, whose end then ends the server.
  const supervisor = spawn('sh', ['-c', SUPERVISOR, 'sh', folder, ...server], {
    cwd: folder,
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  try {
    await serves(folder);
  } catch (error) {
    const log = await readFile(join(folder, 'log'), 'utf8').catch(() => '');
    await end(supervisor);
    throw new Error(`PostgreSQL does not serve: ${log}`, { cause: error });
  }
  return {
    sockets: folder,
    restart: (shutdown) => restart(supervisor, folder, shutdown),
    close: () => end(supervisor),
  };
}

/** Returns the URL of a database of the server. */
export function urlOf(sockets: string, database: string, user = OWNER): string {
  return `postgres://${user}@/${database}?host=${encodeURIComponent(sockets)}`;
}

/** Creates a database without tables, unless there is one of this name, and returns its URL. */
export async function createEmptyDatabase(sockets: string, name: string): Promise<string> {
  const client = new Client({ connectionString: urlOf(sockets, 'postgres') });
  await client.connect();
  const { rowCount } = await client.query('select from pg_database where datname = $1', [name]);
  if (rowCount === 0) await client.query(`create database ${name} template template0 owner ${OWNER}`);
  await client.end();
  return urlOf(sockets, name);
}

/** Returns how to start a program as a user without rights, who also owns the folder: PostgreSQL refuses root. */
export async function unprivileged(folder: string): Promise<string[]> {
  const deathSignal = ['setpriv', '--pdeathsig=QUIT'];
  if (process.getuid?.() !== 0) return deathSignal;
  const { stdout } = await run('id', ['--user', 'postgres']);
  await chown(folder, Number(stdout), Number(stdout));
  return [...deathSignal, '--reuid=postgres', '--regid=postgres', '--clear-groups'];
}

/** Connects as the superuser when the server accepts connections. */
export async function openSuperuser(sockets: string, database = 'postgres'): Promise<Client> {
  let superuser = new Client();
  const connects = async () => {
    superuser = new Client({ connectionString: urlOf(sockets, database, 'postgres') });
    return superuser.connect().then(
      () => true,
      () => false,
    );
  };
  await eventually(connects, { within: 60_000, because: 'the server accepts connections' });
  return superuser;
}

async function prepare(sockets: string): Promise<void> {
  const superuser = await openSuperuser(sockets);
  await superuser.query(`create role ${OWNER} login createdb`);
  await superuser.query(`create database ${TEMPLATE} owner ${OWNER}`);
  await superuser.end();
  const template = await openDatabase(urlOf(sockets, TEMPLATE));
  await migrate(template);
  await template.destroy();
}

async function restart(supervisor: ChildProcess, sockets: string, shutdown: Shutdown): Promise<void> {
  const connected = await openSuperuser(sockets);
  const cut = Promise.withResolvers<void>();
  connected.on('error', () => undefined).on('end', cut.resolve);
  supervisor.stdin?.write(`${SIGNALS[shutdown]}\n`);
  // From then on the server that stops accepts no connection.
  await cut.promise;
  await (await openSuperuser(sockets)).end();
}

async function end(supervisor: ChildProcess): Promise<void> {
  if (supervisor.exitCode !== null) return;
  supervisor.stdin?.end();
  await once(supervisor, 'exit');
}
