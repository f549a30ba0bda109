import { copyFile, cp, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LoggedCommand } from '../run-logged.ts';
import type { Recipe } from './recipe.ts';
import { runInside } from './run-inside.ts';

/** No dependency is looked for, and nothing is built: the lock file names every wheel by its hash. */
const OPTIONS = '--require-hashes --only-binary :all: --no-deps --no-cache-dir --root-user-action=ignore';

/** Installs the wheels that the lock file names, by the pip of the root file system with the configuration of this machine. */
export async function installPipPackages(root: string, recipe: Recipe, options: LoggedCommand): Promise<void> {
  // Marks a Python that apt alone may install into. A sandbox's Python is its user's.
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

/** Puts pip's configuration of this machine into `folder`, as a home folder has it. */
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
