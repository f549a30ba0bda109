/** A PgBouncer of the tests' own, between a server and the PostgreSQL of the tests. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { installPackages, withoutOwnService } from '@cloche/setup';
import { eventually } from '@cloche/testkit/eventually';
import { Client } from 'pg';
import { OWNER, unprivileged, urlOf } from './postgres-server.ts';

const PACKAGE = 'pgbouncer';
const PROGRAM = '/usr/sbin/pgbouncer';

/** Why PgBouncer cannot be here; false if it is, or can be installed. */
export const LACKS_PGBOUNCER =
  !existsSync(PROGRAM) && process.getuid?.() !== 0 && `${PACKAGE} is not installed; root can install it`;

/** Installs Debian's PgBouncer if it is missing. */
export async function installPgBouncer(): Promise<void> {
  if (existsSync(PROGRAM)) return;
  const folder = await mkdtemp(join(tmpdir(), 'cloche-install-pgbouncer-'));
  try {
    await withoutOwnService(PACKAGE);
    await installPackages([PACKAGE], join(folder, 'apt.log'));
  } finally {
    await rm(folder, { recursive: true });
  }
}

export interface PgBouncer extends AsyncDisposable {
  /** Folder of the socket. */
  readonly sockets: string;
}

export interface PgBouncerSettings {
  readonly pool_mode: 'session' | 'transaction' | 'statement';
  readonly default_pool_size?: number;
}

/**
 * Starts a PgBouncer, in which a client waits for a connection to PostgreSQL without a limit. PostgreSQL removes its
 * folder at its own end.
 *
 * @param postgres folder of PostgreSQL's socket
 */
export async function startPgBouncer(
  postgres: string,
  { pool_mode, default_pool_size = 50 }: PgBouncerSettings,
): Promise<PgBouncer> {
  const sockets = await mkdtemp(join(postgres, 'pgbouncer-'));
  const asUser = await unprivileged(sockets);
  const settings = join(sockets, 'pgbouncer.ini');
  const users = join(sockets, 'users.txt');
  await writeFile(users, `"${OWNER}" ""\n`);
  await writeFile(
    settings,
    `[databases]
* = host=${postgres}
[pgbouncer]
pool_mode = ${pool_mode}
default_pool_size = ${default_pool_size}
query_wait_timeout = 0
listen_addr =
listen_port = 5432
unix_socket_dir = ${sockets}
auth_type = trust
auth_file = ${users}
`,
  );
  const [program = '', ...args] = [...asUser, PROGRAM, settings];
  const bouncer = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  bouncer.stderr.setEncoding('utf8').on('data', (text: string) => {
    log += text;
  });
  const ended = once(bouncer, 'close');
  const end = async () => {
    bouncer.kill('SIGKILL');
    await ended;
  };
  const connects = async () => {
    if (bouncer.exitCode !== null) throw new Error(`PgBouncer has ended: ${log}`);
    const client = new Client({ connectionString: urlOf(sockets, 'postgres') });
    const answers = await client.connect().then(
      () => true,
      () => false,
    );
    await client.end();
    return answers;
  };
  try {
    await eventually(connects, { because: 'PgBouncer accepts connections' });
  } catch (error) {
    await end();
    throw new Error(`PgBouncer does not serve: ${log}`, { cause: error });
  }
  return { sockets, [Symbol.asyncDispose]: end };
}
