import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CHECKED_AT } from '@cloche/layout';
import { withLock } from '../build-lock.ts';
import { runLogged } from '../run-logged.ts';
import {
  describeVersion,
  findTemplate,
  publishVersion,
  removeFolder,
  syncFolder,
  type TemplateVersion,
  templateLock,
  VERSION_FILES,
  versionFolder,
  writeDescription,
} from './cached-versions.ts';
import { listInstalledPackages } from './installed-packages.ts';
import { nodeVersionOf } from './npm-packages.ts';
import { canonicalJson, type Recipe } from './recipe.ts';
import { makeRootFileSystem } from './root-file-system.ts';

export type BuildOptions = {
  cacheDir: string;
  /** Builder of the root file system; tests replace it with a fast one. */
  makeRoot?: typeof makeRootFileSystem;
  /** Called when another process of this host builds the same template. */
  onWait?: () => void;
  now?: () => Date;
};

/**
 * Returns the newest version built from a recipe, and builds one if there is none. Versions are never changed, because
 * sandboxes pin them. Safe to interrupt at any point, and to call from many processes at once.
 *
 * @throws {CommandFailedError} when a step of the build fails.
 */
export async function ensureTemplate(recipe: Recipe, options: BuildOptions): Promise<TemplateVersion> {
  const { cacheDir, onWait } = options;
  const built = await findTemplate(recipe, cacheDir);
  if (built) return built;
  return withLock(
    templateLock(recipe.slug, cacheDir),
    async () => (await findTemplate(recipe, cacheDir)) ?? (await build(recipe, options)).version,
    onWait,
  );
}

/**
 * Builds a recipe with the packages that Debian has now, as the template's newest version. Sandboxes keep their version.
 * Where no package has changed, nothing is published, and the time of this check is noted instead.
 *
 * @throws {CommandFailedError} when a step of the build fails.
 */
export async function refreshTemplate(
  recipe: Recipe,
  options: BuildOptions,
): Promise<{ version: TemplateVersion; isNew: boolean }> {
  return withLock(templateLock(recipe.slug, options.cacheDir), () => build(recipe, options), options.onWait);
}

/**
 * Publishes an earlier version of a template again, as its newest one, because the newest version is what sandboxes get.
 * Its files are hard links to those of the earlier version.
 */
export async function republishTemplate(
  recipe: Recipe,
  earlier: TemplateVersion,
  options: BuildOptions,
): Promise<TemplateVersion> {
  const { cacheDir, onWait, now } = options;
  return withLock(
    templateLock(recipe.slug, cacheDir),
    () =>
      inBuildFolder(recipe.slug, cacheDir, async (folder, logFile) => {
        const root = join(versionFolder(earlier, cacheDir), VERSION_FILES.root);
        await runLogged('cp', ['--archive', '--link', '--one-file-system', root, join(folder, VERSION_FILES.root)], {
          logFile,
        });
        const { packages, packagesAt = earlier.builtAt } = earlier;
        const version = describeVersion(recipe, { packages, builtAt: timestamp(now), packagesAt });
        await writeDescription(folder, version, recipe);
        await syncFolder(folder, logFile);
        await publishVersion(folder, version, cacheDir);
        return version;
      }),
    onWait,
  );
}

/** Builds a version. The caller holds the lock. */
async function build(
  recipe: Recipe,
  { cacheDir, makeRoot = makeRootFileSystem, now }: BuildOptions,
): Promise<{ version: TemplateVersion; isNew: boolean }> {
  return inBuildFolder(recipe.slug, cacheDir, async (folder, logFile) => {
    const root = join(folder, VERSION_FILES.root);
    await makeRoot(root, recipe, { logFile });
    const packages = await listInstalledPackages(root, nodeVersionOf(recipe.packages));
    const version = describeVersion(recipe, { packages, builtAt: timestamp(now) });
    const newest = await findTemplate(recipe, cacheDir);
    if (newest && canonicalJson(newest.packages) === canonicalJson(packages)) {
      await writeFile(join(versionFolder(newest, cacheDir), CHECKED_AT), version.builtAt);
      return { version: newest, isNew: false };
    }
    // An earlier version had these packages, and is not the newest any more.
    const published = existsSync(versionFolder(version, cacheDir))
      ? describeVersion(recipe, { packages, builtAt: version.builtAt, packagesAt: version.builtAt })
      : version;
    await writeDescription(folder, published, recipe);
    await syncFolder(folder, logFile);
    await publishVersion(folder, published, cacheDir);
    return { version: published, isNew: true };
  });
}

/** Runs `work` with an empty folder for a version. What an interrupted build left in it is removed before. */
async function inBuildFolder<Result>(
  slug: string,
  cacheDir: string,
  work: (folder: string, logFile: string) => Promise<Result>,
): Promise<Result> {
  const building = join(cacheDir, 'building', slug);
  const logFile = `${building}.log`;
  await removeFolder(building);
  await rm(logFile, { force: true });
  const folder = join(building, 'version');
  await mkdir(folder, { recursive: true });
  const result = await work(folder, logFile);
  await removeFolder(building);
  return result;
}

function timestamp(now: BuildOptions['now'] = () => new Date()): string {
  return now().toISOString();
}
