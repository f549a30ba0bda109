import { readFile } from 'node:fs/promises';
import { runLogged } from '../run-logged.ts';

/** The system user that the server and egress run as. */
export const SERVICE_USER = 'cloche';

export type ServiceAccount = { uid: number; gid: number };

/** The account of the service, made where there is none. */
export async function ensureServiceAccount(logFile: string): Promise<ServiceAccount> {
  const existing = await findServiceAccount();
  if (existing) return existing;
  const nowhere = ['--no-create-home', '--home-dir', '/nonexistent', '--shell', '/usr/sbin/nologin'];
  await runLogged('useradd', ['--system', '--user-group', ...nowhere, SERVICE_USER], { logFile });
  const made = await findServiceAccount();
  if (!made) throw new Error(`useradd made no user ${SERVICE_USER}.`);
  return made;
}

/** Reads the local file: an account of that name in a directory service would not be ours to use. */
export async function findServiceAccount(passwdFile = '/etc/passwd'): Promise<ServiceAccount | undefined> {
  const lines = (await readFile(passwdFile, 'utf8')).split('\n');
  const fields = lines.map((line) => line.split(':')).find(([name]) => name === SERVICE_USER);
  return fields && { uid: Number(fields[2]), gid: Number(fields[3]) };
}
