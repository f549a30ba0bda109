import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { findManager, installCommands, isPresent, SYSTEM_PACKAGES, type SystemPackage } from '@cloche/host-checks';
import { SetupError } from '../progress.ts';
import { CommandFailedError, runLogged } from '../run-logged.ts';

const run = promisify(execFile);

/** HAProxy, the load balancer of several servers. */
export const BALANCER: SystemPackage = {
  program: 'haproxy',
  packages: { 'apt-get': 'haproxy', dnf: 'haproxy', zypper: 'haproxy', pacman: 'haproxy' },
};

/** Returns what this machine lacks. Takes no program to look at what is there, however it was installed. */
export function missingPackages(balancer: boolean): SystemPackage[] {
  return [...SYSTEM_PACKAGES, ...(balancer ? [BALANCER] : [])].filter((row) => !isPresent(row));
}

/**
 * Installs what is missing by the program of this distribution, and returns the names of the packages.
 *
 * @throws {SetupError} where there is no such program
 */
export async function installMissing(missing: readonly SystemPackage[], logFile: string): Promise<string[]> {
  const manager = findManager();
  if (!manager) {
    const names = missing.map(({ packages }) => packages['apt-get']).join(', ');
    throw new SetupError(
      `This machine lacks ${names}, and has neither apt-get, dnf, zypper nor pacman.`,
      "Install these by the distribution's own means (the names are Debian's), then start again.",
    );
  }
  const names = missing.map(({ packages }) => packages[manager]);
  if (missing.includes(BALANCER)) await withoutOwnService('haproxy');
  await installPackages(names, logFile);
  return names;
}

/** Installs packages by their names. Updates the package lists only when the present ones do not suffice. */
export async function installPackages(names: readonly string[], logFile: string): Promise<void> {
  const manager = findManager() ?? 'apt-get';
  const { install, refresh } = installCommands(manager, names);
  const options = { logFile, env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } };
  try {
    await runLogged(manager, install, options);
  } catch (error) {
    if (!(error instanceof CommandFailedError)) throw error;
    await runLogged(manager, refresh, options);
    await runLogged(manager, install, options);
  }
}

/**
 * Masks the service that systemd would start for a package that is about to be installed: only Cloche uses its program.
 * Does nothing without systemd.
 */
export async function withoutOwnService(name: string): Promise<void> {
  if (!existsSync('/run/systemd/system')) return;
  await run('systemctl', ['mask', `${name}.service`]);
}
