import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CERTIFICATE_BUNDLES, INIT_PROGRAMS } from '../../../shared/layout/src/host-files.mjs';

/** Folders of shared libraries on Debian (of both architectures) and elsewhere. */
const LIBRARY_FOLDERS = [
  '/usr/lib/x86_64-linux-gnu',
  '/usr/lib/aarch64-linux-gnu',
  '/lib/x86_64-linux-gnu',
  '/lib/aarch64-linux-gnu',
  '/usr/lib64',
  '/lib64',
  '/usr/lib',
  '/lib',
];
/** Folders of programs that are not in every user's PATH. */
const PROGRAM_FOLDERS = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];

/**
 * Something that Cloche needs of a distribution: a program, a shared library, or one of several files; and the package
 * that has it, by the program that installs packages.
 *
 * @typedef {{
 *   program?: string,
 *   library?: string,
 *   anyOf?: readonly string[],
 *   packages: Readonly<Record<Manager, string>>,
 * }} SystemPackage
 * @typedef {'apt-get' | 'dnf' | 'zypper' | 'pacman'} Manager
 */

/** @type {(name: string, others?: Partial<Record<Manager, string>>) => Record<Manager, string>} */
const named = (name, others) => Object.assign({ 'apt-get': name, dnf: name, zypper: name, pacman: name }, others);

/** The library that official builds of Node need, which a minimal system lacks. */
export const NODE_LIBRARY = {
  library: 'libatomic.so.1',
  packages: named('libatomic1', { dnf: 'libatomic', pacman: 'gcc-libs' }),
};

/** @type {readonly SystemPackage[]} what hostd, the template builder and the guest folder need */
export const SYSTEM_PACKAGES = [
  NODE_LIBRARY,
  {
    library: 'libseccomp.so.2',
    packages: named('libseccomp2', { dnf: 'libseccomp', pacman: 'libseccomp' }),
  },
  { anyOf: CERTIFICATE_BUNDLES, packages: named('ca-certificates') },
  { anyOf: INIT_PROGRAMS, packages: named('tini', { dnf: 'tini-static' }) },
  { program: 'crun', packages: named('crun') },
  { program: 'ip', packages: named('iproute2', { dnf: 'iproute' }) },
  { program: 'mke2fs', packages: named('e2fsprogs') },
  { program: 'mmdebstrap', packages: named('mmdebstrap') },
  { program: 'nft', packages: named('nftables') },
  {
    program: 'python3',
    packages: named('python3-minimal', { dnf: 'python3', zypper: 'python3', pacman: 'python' }),
  },
  { program: 'runc', packages: named('runc') },
  { program: 'unshare', packages: named('util-linux') },
  { program: 'useradd', packages: named('passwd', { dnf: 'shadow-utils', zypper: 'shadow', pacman: 'shadow' }) },
  {
    anyOf: ['/usr/share/keyrings/debian-archive-keyring.gpg', '/usr/share/keyrings/debian-archive-keyring.pgp'],
    packages: named('debian-archive-keyring', { dnf: 'debian-keyring' }),
  },
];

/** How each program installs packages, and how it refreshes its lists if that failed. */
const COMMANDS = {
  'apt-get': {
    install: ['-o', 'DPkg::Lock::Timeout=120', 'install', '--yes', '--no-install-recommends'],
    refresh: ['-o', 'DPkg::Lock::Timeout=120', 'update'],
  },
  dnf: { install: ['install', '--assumeyes', '--setopt=install_weak_deps=False'], refresh: ['makecache'] },
  zypper: { install: ['--non-interactive', 'install', '--no-recommends'], refresh: ['--non-interactive', 'refresh'] },
  pacman: { install: ['--sync', '--noconfirm', '--needed'], refresh: ['--sync', '--refresh'] },
};

/**
 * Returns whether this machine has what a row names, whoever installed it.
 *
 * @param {SystemPackage} row
 */
export function isPresent({ program, library, anyOf }) {
  if (program) return programFolders().some((folder) => existsSync(join(folder, program)));
  if (library) return LIBRARY_FOLDERS.some((folder) => existsSync(join(folder, library)));
  return (anyOf || []).some((file) => existsSync(file));
}

function programFolders() {
  return [...(process.env.PATH || '').split(':').filter(Boolean), ...PROGRAM_FOLDERS];
}

/**
 * Returns the program that installs packages on this machine.
 *
 * @returns {Manager | undefined}
 */
export function findManager() {
  const managers = /** @type {Manager[]} */ (Object.keys(COMMANDS));
  return managers.find((program) => isPresent({ program, packages: named('') }));
}

/**
 * Returns the command that installs packages, and the one that refreshes the lists of packages.
 *
 * @param {Manager} manager
 * @param {readonly string[]} packages names of this manager
 */
export function installCommands(manager, packages) {
  const { install, refresh } = COMMANDS[manager];
  return { install: [...install, ...packages], refresh };
}

/**
 * Installs packages, and refreshes the lists of packages if the present ones do not suffice. Waits for the end.
 *
 * @param {Manager} manager
 * @param {readonly string[]} packages
 * @throws Error with the output of the command
 */
export function installNow(manager, packages) {
  const { install, refresh } = installCommands(manager, packages);
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  /** @param {readonly string[]} args */
  const run = (args) => execFileSync(manager, [...args], { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  try {
    run(install);
  } catch {
    run(refresh);
    run(install);
  }
}

/**
 * Returns the command that installs a package on this machine, for people.
 *
 * @param {string} name of Debian's package
 */
export function installHint(name) {
  const manager = findManager() || 'apt-get';
  const row = SYSTEM_PACKAGES.find(({ packages }) => packages['apt-get'] === name);
  const verb = manager === 'pacman' ? '-S' : 'install';
  return `${manager} ${verb} ${row ? row.packages[manager] : name}`;
}
