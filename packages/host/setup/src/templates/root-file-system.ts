import { chown, lstat, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type LoggedCommand, runLogged } from '../run-logged.ts';
import { settleAll } from '../settle-all.ts';
import { plainSources, readAptConfiguration } from './apt-configuration.ts';
import { isolatedCommand } from './isolated-command.ts';
import { LOGIN_FILES } from './login-files.ts';
import { fetchNpmPackages, installNpmPackages } from './npm-packages.ts';
import { installPipPackages } from './pip-packages.ts';
import type { Recipe } from './recipe.ts';
import { runInside, USER_ID } from './run-inside.ts';
import { templateEnvironment } from './template-environment.ts';

/** Excludes documentation, which sandboxes do not need; licences stay. */
const UNPACKED = [
  'path-exclude=/usr/share/man/*',
  'path-exclude=/usr/share/info/*',
  'path-exclude=/usr/share/locale/*',
  'path-exclude=/usr/share/doc/*',
  'path-include=/usr/share/doc/*/copyright',
];

/** Builds the recipe's root file system in the folder `root`, which must not exist. */
export async function makeRootFileSystem(root: string, recipe: Recipe, options: LoggedCommand): Promise<void> {
  await settleAll([fetchNpmPackages(root, recipe, options), bootstrap(root, recipe, options)]);
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
  // mmdebstrap checks packages against Debian's keys, so they are trusted like those of this machine's own apt.
  await runLogged(...isolatedCommand(command), options);
  await forgetMachine(root);
}

/** Removes this machine's download configuration, which mmdebstrap leaves: proxies, options and credentials. */
async function forgetMachine(root: string): Promise<void> {
  const apt = join(root, 'etc', 'apt');
  await rm(join(apt, 'apt.conf.d', '99mmdebstrap'), { force: true });
  const list = join(apt, 'sources.list');
  const used = (await readFile(list, 'utf8')).split('\n').filter((line) => line.startsWith('deb '));
  const lines = plainSources(used).map((line) => `${line}\n`);
  await writeFile(list, lines.join(''));
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
  // Mount points: each sandbox gets its own files there.
  for (const name of ['resolv.conf', 'hosts', 'hostname']) {
    await rm(join(root, 'etc', name), { force: true });
    await writeFile(join(root, 'etc', name), '');
  }
  const lines = Object.entries(templateEnvironment(recipe)).map(([name, value]) => `${name}=${value}\n`);
  await writeFile(join(root, 'etc', 'environment'), lines.join(''));
  // Overwrite existing files, so that their owners stay.
  for (const [path, text] of Object.entries(LOGIN_FILES)) await writeFile(join(root, path), text);
}

/** Removes files that only the build needed. */
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
      // apt requires these folders, empty.
      if ((await lstat(inner)).isDirectory() && entry === 'partial') continue;
      await rm(inner, { recursive: true, force: true });
    }
  }
}
