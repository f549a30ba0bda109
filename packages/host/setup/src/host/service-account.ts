import { readFile } from 'node:fs/promises';
import { runLogged } from '../run-logged.ts';

export type ServiceAccount = { uid: number; gid: number };

/**
 * SECURITY: separate accounts, so that a compromised gateway reaches nothing of the server's (e2e/security/privileges).
 */
export type ServiceAccounts = { server: ServiceAccount; egress: ServiceAccount };

/** System users of the unprivileged parts. */
export const SERVICE_USERS = { server: 'cloche', egress: 'cloche-egress' } as const;

/** Options of useradd for such a user, which has neither a home nor a shell. */
export const NEW_ACCOUNT = [
  ...['--system', '--user-group', '--no-create-home', '--home-dir', '/nonexistent'],
  ...['--shell', '/usr/sbin/nologin'],
] as const;

/** Returns the accounts of the unprivileged parts; creates missing ones. */
export async function ensureServiceAccounts(logFile: string): Promise<ServiceAccounts> {
  return {
    server: await ensureServiceAccount(SERVICE_USERS.server, logFile),
    egress: await ensureServiceAccount(SERVICE_USERS.egress, logFile),
  };
}

async function ensureServiceAccount(user: string, logFile: string): Promise<ServiceAccount> {
  const existing = await findServiceAccount(user);
  if (existing) return existing;
  await runLogged('useradd', [...NEW_ACCOUNT, user], { logFile });
  const made = await findServiceAccount(user);
  if (!made) throw new Error(`useradd did not create the user ${user}.`);
  return made;
}

/**
 * Finds a local account. Reads the local file, because an account of that name in a directory service is not Cloche's.
 */
export async function findServiceAccount(
  user: string,
  passwdFile = '/etc/passwd',
): Promise<ServiceAccount | undefined> {
  const lines = (await readFile(passwdFile, 'utf8')).split('\n');
  const fields = lines.map((line) => line.split(':')).find(([name]) => name === user);
  return fields && { uid: Number(fields[2]), gid: Number(fields[3]) };
}
