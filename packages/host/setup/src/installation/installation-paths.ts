import { randomInt } from 'node:crypto';
import { chmod, chown, link, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { dataPaths, runPaths } from '@cloche/layout';
import { egressPaths } from '@cloche/protocol';
import type { ServiceAccounts } from '../host/service-account.ts';
import { SetupError } from '../progress.ts';

const CODE_DIR = '/run/cloche/code';

export type InstallationPaths = {
  installationId: string;
  dataDir: string;
  runDir: string;
  logsDir: string;
  /**
   * Mount point of the checkout in the services' own mount namespaces, so that the checkout itself may be in a folder
   * that their users cannot read. All installations use the same path, because Node's compile cache depends on it.
   */
  codeDir: string;
};

/**
 * Creates the folders of an installation, each accessible only to the parts that need it. A repeated call repairs
 * owners and modes.
 *
 * @param runDir default `/run/cloche/<installationId>`
 */
export async function preparePaths(
  dataDir: string,
  runDir: string | undefined,
  { server, egress }: ServiceAccounts,
): Promise<InstallationPaths> {
  await requireReachable(dataDir);
  await ensureFolder(dataDir, 0o755, 0, 0);
  const data = dataPaths(dataDir);
  await ensureFolder(data.serverDir, 0o700, server.uid, server.gid);
  await ensureFolder(data.hostdDir, 0o700, 0, 0);
  const logsDir = join(dataDir, 'logs');
  await ensureFolder(logsDir, 0o700, 0, 0);

  const installationId = await ensureInstallationId(data.installationId);
  const runFolder = runDir ?? join('/run/cloche', installationId);
  const run = runPaths(runFolder);
  await requireReachable(runFolder);
  await ensureFolder(runFolder, 0o755, 0, 0);
  await ensureFolder(run.serverDir, 0o700, server.uid, server.gid);
  await ensureFolder(run.hostdDir, 0o750, 0, server.gid);
  await ensureFolder(run.instancesDir, 0o750, 0, server.gid);
  // Files that the server creates in it get the group of egress, of which the server is no member.
  await ensureFolder(run.secretsDir, 0o2750, server.uid, egress.gid);
  await ensureFolder(run.egressDir, 0o755, 0, 0);
  const { controlDir, authorityDir } = egressPaths(runFolder, dataDir);
  for (const folder of [controlDir, authorityDir]) await ensureFolder(folder, 0o700, egress.uid, egress.gid);
  await ensureFolder(CODE_DIR, 0o755, 0, 0);
  return { installationId, dataDir, runDir: runFolder, logsDir, codeDir: CODE_DIR };
}

async function ensureFolder(folder: string, mode: number, uid: number, gid: number): Promise<void> {
  await mkdir(folder, { recursive: true });
  await chown(folder, uid, gid);
  await chmod(folder, mode);
}

/**
 * Returns the installation's id, part of every name on the host; creates it if needed. Of two concurrent starts, the
 * first one decides.
 */
async function ensureInstallationId(file: string): Promise<string> {
  const existing = await readFile(file, 'utf8').catch(() => undefined);
  if (existing !== undefined) return existing.trim();
  const alphabet = 'abcdefghijklmnopqrstuvwxyz0123456789';
  const fresh = Array.from({ length: 8 }, () => alphabet[randomInt(alphabet.length)]).join('');
  const temporary = `${file}.${process.pid}`;
  await writeFile(temporary, `${fresh}\n`, { mode: 0o644 });
  // A link, unlike a rename, never replaces a file.
  await link(temporary, file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  await rm(temporary);
  return (await readFile(file, 'utf8')).trim();
}

/**
 * Throws when the server's user cannot enter a folder above: the server would fail later, with a less clear message.
 */
async function requireReachable(folder: string): Promise<void> {
  for (let above = dirname(folder); above !== '/'; above = dirname(above)) {
    const found = await stat(above).catch(() => undefined);
    // Missing folders are created later, with sufficient access.
    if (found === undefined || (found.mode & 0o001) !== 0) continue;
    throw new SetupError(
      `The server, which is not root, cannot enter ${above} on the way to ${folder}.`,
      `Choose another folder, or run \`chmod o+x ${above}\`.`,
    );
  }
}
