import { chown, lstat, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type LoggedCommand, runLogged } from '../run-logged.ts';
import { together } from '../together.ts';
import { plainSources, readAptConfiguration } from './apt-configuration.ts';
import { contained } from './contained-command.ts';
import { LOGIN_FILES } from './login-files.ts';
import { fetchNpmPackages, installNpmPackages } from './npm-packages.ts';
import { installPipPackages } from './pip-packages.ts';
import type { Recipe } from './recipe.ts';
import { runInside, USER_ID } from './run-inside.ts';
import { templateEnvironment } from './template-environment.ts';

/** Documentation is for people at a terminal of their own; licences stay. */
const UNPACKED = [
  'path-exclude=/usr/share/man/*',
  'path-exclude=/usr/share/info/*',
  'path-exclude=/usr/share/locale/*',
  'path-exclude=/usr/share/doc/*',
  'path-include=/usr/share/doc/*/copyright',
];

/** Makes the recipe's root file system in the folder `root`, which must not exist. */
export async function makeRootFileSystem(root: string, recipe: Recipe, options: LoggedCommand): Promise<void> {
  await together([fetchNpmPackages(root, recipe, options), bootstrap(root, recipe, options)]);
  await addAccount(root, recipe, options);
  await installNpmPackages(root, recipe);
  await installPipPackages(root, recipe, options);
  for (const { as, run } of recipe.setup) await runInside(root, recipe, run, { ...options, as });
  await trim(root);
}

async function bootstrap(root: string, recipe: Recipe, options: LoggedCommand): Promise<void> {
  const release = recipe.from.slice('debian:'.length);
  const apt = await readAptConfiguration(release);
  const command = [
    'mmdebstrap',
    '--mode=root',
    '--format=directory',
    '--variant=minbase',
    ...(recipe.packages.apt.length > 0 ? [`--include=${recipe.packages.apt.join(',')}`] : []),
    ...apt.options.map((option) => `--aptopt=${option}`),
    ...UNPACKED.map((option) => `--dpkgopt=${option}`),
    release,
    root,
    ...apt.sources,
  ];
  // Packages are checked against Debian's keys, and come with the same trust as those of this machine's own apt.
  await runLogged(...contained(command), options);
  await forgetMachine(root, apt.sources);
}

/** Removes what mmdebstrap keeps of how this machine downloads: its proxies, options and credentials. */
async function forgetMachine(root: string, sources: readonly string[]): Promise<void> {
  const apt = join(root, 'etc', 'apt');
  await rm(join(apt, 'apt.conf.d', '99mmdebstrap'), { force: true });
  await writeFile(
    join(apt, 'sources.list'),
    plainSources(sources)
      .map((line) => `${line}\n`)
      .join(''),
  );
}

async function addAccount(root: string, recipe: Recipe, options: LoggedCommand): Promise<void> {
  await runLogged(
    'chroot',
    [root, 'useradd', '--uid', `${USER_ID}`, '--user-group', '--create-home', '--shell', '/bin/bash', 'user'],
    options,
  );
  await mkdir(join(root, 'workspace'));
  await chown(join(root, 'workspace'), USER_ID, USER_ID);
  await mkdir(join(root, 'opt', 'cloche'), { recursive: true });
  // Mount points: each sandbox gets its own in their place.
  for (const name of ['resolv.conf', 'hosts', 'hostname']) {
    await rm(join(root, 'etc', name), { force: true });
    await writeFile(join(root, 'etc', name), '');
  }
  const lines = Object.entries(templateEnvironment(recipe)).map(([name, value]) => `${name}=${value}\n`);
  await writeFile(join(root, 'etc', 'environment'), lines.join(''));
  // Over what is there, so that owners stay.
  for (const [path, text] of Object.entries(LOGIN_FILES)) await writeFile(join(root, path), text);
}

/** Removes what only building needed. */
async function trim(root: string): Promise<void> {
  for (const path of [
    'var/cache/apt',
    'var/lib/apt/lists',
    'var/log',
    'tmp',
    'root/.npm',
    'usr/share/doc-base',
    'dev',
  ]) {
    const folder = join(root, path);
    const entries = await readdir(folder).catch(() => []);
    for (const entry of entries) {
      const inner = join(folder, entry);
      // apt wants its folders back, empty.
      if ((await lstat(inner)).isDirectory() && entry === 'partial') continue;
      await rm(inner, { recursive: true, force: true });
    }
  }
}
