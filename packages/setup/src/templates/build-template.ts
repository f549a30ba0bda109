import { createHash } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cachePaths } from '@cloche/layout';
import { TemplateVersionManifest } from '@cloche/protocol';
import type { Static } from 'typebox';
import { Value } from 'typebox/value';
import { withLock } from '../build-lock.ts';
import { runLogged } from '../run-logged.ts';
import { type InstalledPackages, listInstalledPackages } from './installed-packages.ts';
import { nodeVersionOf } from './npm-packages.ts';
import { canonicalJson, type Recipe, recipeDigest } from './recipe.ts';
import { makeRootFileSystem } from './root-file-system.ts';
import { templateEnvironment } from './template-environment.ts';

export type TemplateVersion = Static<typeof TemplateVersionManifest>;

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
  const built = await findTemplate(recipe, options.cacheDir);
  if (built) return built;
  const lockFile = join(options.cacheDir, 'building', `${recipe.slug}.lock`);
  return withLock(
    lockFile,
    async () => (await findTemplate(recipe, options.cacheDir)) ?? build(recipe, options),
    options.onWait,
  );
}

/** Finds the newest version built on this host from exactly this recipe. */
export async function findTemplate(recipe: Recipe, cacheDir: string): Promise<TemplateVersion | undefined> {
  const folder = join(cachePaths(cacheDir).templatesDir, recipe.slug);
  const wanted = recipeDigest(recipe);
  const found: TemplateVersion[] = [];
  for (const entry of await readdir(folder).catch(() => [])) {
    const digest = await readFile(join(folder, entry, 'recipe-digest'), 'utf8').catch(() => undefined);
    if (digest !== wanted) continue;
    found.push(
      Value.Parse(TemplateVersionManifest, JSON.parse(await readFile(join(folder, entry, 'manifest.json'), 'utf8'))),
    );
  }
  return found.sort((a, b) => (a.builtAt < b.builtAt ? 1 : -1))[0];
}

/** Builds a version. The caller holds the lock, so content of the build folder is left from an interrupted build. */
async function build(recipe: Recipe, options: BuildOptions): Promise<TemplateVersion> {
  const building = join(options.cacheDir, 'building', recipe.slug);
  const logFile = join(options.cacheDir, 'building', `${recipe.slug}.log`);
  await remove(building);
  await rm(logFile, { force: true });
  await mkdir(building, { recursive: true });

  const version = join(building, 'version');
  const root = join(version, 'rootfs');
  await mkdir(version);
  await (options.makeRoot ?? makeRootFileSystem)(root, recipe, { logFile });

  const builtAt = (options.now?.() ?? new Date()).toISOString();
  const manifest = describe(recipe, await listInstalledPackages(root, nodeVersionOf(recipe.packages)), builtAt);
  await writeFile(join(version, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  await writeFile(join(version, 'recipe-digest'), recipeDigest(recipe));
  // Sync first: after a power cut, the published name could otherwise exist without its files.
  await runLogged('sync', ['--file-system', version], { logFile });
  await publish(version, manifest, options.cacheDir);
  await remove(building);
  return manifest;
}

function describe(recipe: Recipe, packages: InstalledPackages, builtAt: string): TemplateVersion {
  const content = canonicalJson({ recipe: recipeDigest(recipe), packages });
  const digest = createHash('sha256').update(content).digest('hex');
  return {
    id: `tplv_${digest.slice(0, 20)}`,
    slug: recipe.slug,
    description: recipe.description,
    version: `${builtAt.slice(0, 10).replaceAll('-', '.')}-${digest.slice(0, 8)}`,
    digest,
    languages: recipe.languages,
    packages,
    env: templateEnvironment(recipe),
    builtAt,
  };
}

async function publish(version: string, manifest: TemplateVersion, cacheDir: string): Promise<void> {
  const { templatesDir } = cachePaths(cacheDir);
  const folder = join(templatesDir, manifest.slug);
  await mkdir(folder, { recursive: true });
  // SECURITY: a template contains set-user-id programs; other users of this host must not be able to list them.
  await chmod(templatesDir, 0o711);
  await chmod(folder, 0o711);
  await rename(version, join(folder, manifest.digest));
}

/** Deletes a folder without crossing file systems: a mount below it must not be emptied. */
async function remove(folder: string): Promise<void> {
  await runLogged('rm', ['--recursive', '--force', '--one-file-system', folder], { logFile: '/dev/null' });
}
