import { chown, mkdir, readdir, readlink, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { ownFolder } from '@cloche/layout';
import { type LoggedCommand, runLogged } from '../run-logged.ts';
import type { Recipe } from './recipe.ts';

/** npm's names of the architectures that templates are built for. */
const ARCHITECTURES = ['x64', 'arm64'] as const;
const NODE = 'node@';
const OPTIONS = ['--ignore-scripts', '--install-strategy=nested', '--no-audit', '--no-fund', '--no-update-notifier'];

/**
 * Returns the project whose lock file pins the recipe's npm packages. Node comes from the packages with its program,
 * because the package `node` runs a script to find them.
 */
export function npmProject({ packages }: Recipe) {
  const split = (name: string) =>
    [name.slice(0, name.lastIndexOf('@')), name.slice(name.lastIndexOf('@') + 1)] as const;
  const version = nodeVersionOf(packages);
  return {
    private: true,
    dependencies: Object.fromEntries(packages.npm.filter((name) => !name.startsWith(NODE)).map(split)),
    optionalDependencies: Object.fromEntries(
      version ? ARCHITECTURES.map((name) => [`node-linux-${name}`, version]) : [],
    ),
  };
}

export function nodeVersionOf({ npm }: Recipe['packages']): string | undefined {
  return npm.find((name) => name.startsWith(NODE))?.slice(NODE.length);
}

/**
 * Downloads the packages of the lock file to a folder beside `root`, with a separate log. Runs none of their programs.
 */
export async function fetchNpmPackages(root: string, recipe: Recipe, { logFile }: LoggedCommand): Promise<void> {
  const { npm: lock } = recipe.locks;
  if (lock === undefined) return;
  const project = projectBeside(root);
  await mkdir(project, { recursive: true });
  await writeFile(join(project, 'package.json'), JSON.stringify(npmProject(recipe)));
  await writeFile(join(project, 'package-lock.json'), lock);
  // This machine's npm with this process's Node, so that the machine's configuration applies; Cloche's own npm where the
  // machine has none.
  const path = [dirname(process.execPath), process.env.PATH, join(ownFolder(), 'node_modules/.bin')].join(':');
  const env = { ...process.env, PATH: path };
  const log = logFile.replace(/(\.log)?$/, '-npm.log');
  await runLogged('npm', ['ci', ...OPTIONS, '--prefix', project], { logFile: log, cwd: project, env });
}

/**
 * Moves the downloaded packages to the folders of `npm install --global`; Node's program becomes `/usr/local/bin/node`.
 */
export async function installNpmPackages(root: string, recipe: Recipe): Promise<void> {
  const project = projectBeside(root);
  const { dependencies, optionalDependencies } = npmProject(recipe);
  const fetched = join(project, 'node_modules');
  const prefix = join(root, 'usr', 'local');
  const node = join(fetched, `node-linux-${process.arch}`, 'bin', 'node');
  if (Object.keys(optionalDependencies).length > 0) {
    await rename(node, join(prefix, 'bin', 'node')).catch(() => {
      // npm skips optional packages that it cannot download or that are for another architecture.
      throw new Error(`npm did not install node-linux-${process.arch}; its log says why.`);
    });
    await chown(join(prefix, 'bin', 'node'), 0, 0);
  }
  for (const name of Object.keys(dependencies)) {
    const target = join(prefix, 'lib', 'node_modules', name);
    await mkdir(dirname(target), { recursive: true });
    await rename(join(fetched, name), target);
  }
  for (const name of await readdir(join(fetched, '.bin')).catch(() => [])) {
    const program = await readlink(join(fetched, '.bin', name));
    if (basename(program) === 'node') continue;
    await symlink(join('../lib/node_modules', program.replace(/^\.\.\//, '')), join(prefix, 'bin', name));
  }
  await rm(project, { recursive: true, force: true });
}

function projectBeside(root: string): string {
  return join(dirname(root), 'npm');
}
