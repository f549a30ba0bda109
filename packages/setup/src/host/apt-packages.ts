import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { CommandFailedError, runLogged } from '../run-logged.ts';

const run = promisify(execFile);

/** Packages that hostd, the template builder and the guest folder need. */
export const APT_PACKAGES = [
  'ca-certificates',
  'crun',
  'e2fsprogs',
  'iproute2',
  'libatomic1',
  'libseccomp2',
  'mmdebstrap',
  'nftables',
  'python3-minimal',
  'runc',
  'tini',
  'util-linux',
] as const;

/** Returns the packages that are not installed. Fast: reads dpkg's own database. */
export async function missingAptPackages(wanted: readonly string[] = APT_PACKAGES): Promise<string[]> {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: these are placeholders of dpkg-query.
  const format = '${Package} ${db:Status-Status}\\n';
  // dpkg-query exits with 1 for an unknown package, but still lists the others.
  const listed = await run('dpkg-query', ['--show', `--showformat=${format}`, ...wanted]).then(
    ({ stdout }) => stdout,
    (error: { stdout?: string }) => error.stdout ?? '',
  );
  const installed = new Set(
    listed.split('\n').flatMap((line) => (line.endsWith(' installed') ? [line.split(' ')[0]] : [])),
  );
  return wanted.filter((name) => !installed.has(name));
}

/** Installs packages. Updates the package lists only when the present ones do not suffice. */
export async function installAptPackages(packages: readonly string[], logFile: string): Promise<void> {
  const options = { logFile, env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } };
  const patient = ['-o', 'DPkg::Lock::Timeout=120'];
  const install = () =>
    runLogged('apt-get', [...patient, 'install', '--yes', '--no-install-recommends', ...packages], options);
  try {
    await install();
  } catch (error) {
    if (!(error instanceof CommandFailedError)) throw error;
    await runLogged('apt-get', [...patient, 'update'], options);
    await install();
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
