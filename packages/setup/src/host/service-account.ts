import { readFile } from 'node:fs/promises';
import { runLogged } from '../run-logged.ts';

export type ServiceAccount = { uid: number; gid: number };

/** SECURITY: one each, so that a gateway that was taken over reaches nothing of the server's (e2e/security/privileges). */
export type ServiceAccounts = { server: ServiceAccount; egress: ServiceAccount };

/** The system users that the unprivileged parts run as. */
export const SERVICE_USERS = { server: 'cloche', egress: 'cloche-egress' } as const;

/** The accounts of the unprivileged parts, made where there are none. */
export async function ensureServiceAccounts(logFile: string): Promise<ServiceAccounts> {
  return {
    server: await ensureServiceAccount(SERVICE_USERS.server, logFile),
    egress: await ensureServiceAccount(SERVICE_USERS.egress, logFile),
  };
}

async function ensureServiceAccount(user: string, logFile: string): Promise<ServiceAccount> {
  const existing = await findServiceAccount(user);
  if (existing) return existing;
  const nowhere = ['--no-create-home', '--home-dir', '/nonexistent', '--shell', '/usr/sbin/nologin'];
  await runLogged('useradd', ['--system', '--user-group', ...nowhere, user], { logFile });
  const made = await findServiceAccount(user);
  if (!made) throw new Error(`useradd did not create the user ${user}.`);
  return made;
}

/** Reads the local file: an account of that name in a directory service would not be ours to use. */
export async function findServiceAccount(
  user: string,
  passwdFile = '/etc/passwd',
): Promise<ServiceAccount | undefined> {
  const lines = (await readFile(passwdFile, 'utf8')).split('\n');
  const fields = lines.map((line) => line.split(':')).find(([name]) => name === user);
  return fields && { uid: Number(fields[2]), gid: Number(fields[3]) };
}
