import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { installPackages } from '@cloche/setup';

const PACKAGE = 'postgresql-15';
/** Folder of the server's programs. */
export const PROGRAMS = '/usr/lib/postgresql/15/bin';
/** Debian creates and starts a database when it installs the package, unless a file here says otherwise. */
const NO_MAIN_CLUSTER = '/etc/postgresql-common/createcluster.d/cloche-tests.conf';

/** Installs Debian's PostgreSQL if it is missing, without the database that Debian would start. Needs root for that. */
export async function installPostgres(): Promise<void> {
  if (existsSync(join(PROGRAMS, 'postgres'))) return;
  if (process.getuid?.() !== 0) throw new Error(`${PACKAGE} is not installed; root can install it`);
  const folder = await mkdtemp(join(tmpdir(), 'cloche-install-postgres-'));
  try {
    await mkdir(dirname(NO_MAIN_CLUSTER), { recursive: true });
    await writeFile(NO_MAIN_CLUSTER, 'create_main_cluster = false\n');
    await installPackages([PACKAGE], join(folder, 'apt.log'));
  } finally {
    await rm(NO_MAIN_CLUSTER, { force: true });
    await rm(folder, { recursive: true });
  }
}
