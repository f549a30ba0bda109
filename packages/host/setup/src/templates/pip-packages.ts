import { copyFile, cp, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LoggedCommand } from '../run-logged.ts';
import type { Recipe } from './recipe.ts';
import { runInside } from './run-inside.ts';

/**
 * pip resolves no dependencies and builds nothing: the lock file names every wheel by its hash. Modules are compiled by
 * the recipe, on all processors.
 */
const OPTIONS = '--require-hashes --only-binary :all: --no-deps --no-compile --no-cache-dir --root-user-action=ignore';

/** Installs the wheels of the lock file with the root file system's pip and this machine's configuration. */
export async function installPipPackages(root: string, recipe: Recipe, options: LoggedCommand): Promise<void> {
  // The marker allows only apt to install packages. In a sandbox, users install them too.
  const libraries = await readdir(join(root, 'usr', 'lib'));
  for (const name of libraries.filter((name) => name.startsWith('python3'))) {
    await rm(join(root, 'usr', 'lib', name, 'EXTERNALLY-MANAGED'), { force: true });
  }
  const { pip: lock } = recipe.locks;
  if (lock === undefined) return;
  const settings = await mkdtemp(join(tmpdir(), 'cloche-pip-'));
  try {
    await copySettings(settings);
    await writeFile(join(settings, 'requirements.txt'), lock);
    const own = Object.entries(process.env).filter(([name]) => /^(PIP_\w+|\w+_proxy)$/i.test(name));
    const network = { ...Object.fromEntries(own), PIP_CONFIG_FILE: '/root/pip.conf' };
    const command = `python3 -m pip install ${OPTIONS} --requirement requirements.txt`;
    await runInside(root, recipe, command, { ...options, as: 'root', settings, network });
  } finally {
    await rm(settings, { recursive: true });
  }
}

/** Copies this machine's pip configuration to `folder`, laid out as in a home folder. */
async function copySettings(folder: string): Promise<void> {
  const home = homedir();
  for (const [from, to] of [
    [join(home, '.config', 'pip'), join('.config', 'pip')],
    [join(home, '.pip'), '.pip'],
  ] as const) {
    if (!(await exists(from))) continue;
    await mkdir(join(folder, '.config'), { recursive: true });
    await cp(from, join(folder, to), { recursive: true });
  }
  for (const file of [process.env.PIP_CONFIG_FILE, '/etc/pip.conf', '/etc/xdg/pip/pip.conf']) {
    if (file && (await exists(file))) return copyFile(file, join(folder, 'pip.conf'));
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
