/** The versions of curated templates in the cache. A version is never changed, because sandboxes pin it. */
import { createHash } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cachePaths } from '@cloche/layout';
import { TemplateVersionManifest } from '@cloche/protocol';
import type { Static } from 'typebox';
import { Value } from 'typebox/value';
import { runLogged } from '../run-logged.ts';
import type { InstalledPackages } from './installed-packages.ts';
import { canonicalJson, type Recipe, recipeDigest } from './recipe.ts';
import { templateEnvironment } from './template-environment.ts';

export type TemplateVersion = Static<typeof TemplateVersionManifest>;

/** Files of a version's folder. */
export const VERSION_FILES = { manifest: 'manifest.json', recipeDigest: 'recipe-digest', root: 'rootfs' } as const;

/** Finds the newest version in this cache of exactly this recipe. */
export async function findTemplate(recipe: Recipe, cacheDir: string): Promise<TemplateVersion | undefined> {
  return (await listVersions(recipe, cacheDir))[0];
}

/** Returns the versions of exactly this recipe, newest first. */
export async function listVersions(recipe: Recipe, cacheDir: string): Promise<TemplateVersion[]> {
  const folder = join(cachePaths(cacheDir).templatesDir, recipe.slug);
  const wanted = recipeDigest(recipe);
  const found: TemplateVersion[] = [];
  for (const entry of await readdir(folder).catch(() => [])) {
    const version = join(folder, entry);
    const digest = await readFile(join(version, VERSION_FILES.recipeDigest), 'utf8').catch(() => undefined);
    if (digest === wanted) found.push(await readManifest(version));
  }
  return found.sort((a, b) => (a.builtAt < b.builtAt ? 1 : -1));
}

/** Returns the folder of a version. */
export function versionFolder({ slug, digest }: Pick<TemplateVersion, 'slug' | 'digest'>, cacheDir: string): string {
  return join(cachePaths(cacheDir).templatesDir, slug, digest);
}

/** Reads the manifest in a version's folder. @throws Error for one of another form */
export async function readManifest(folder: string): Promise<TemplateVersion> {
  return Value.Parse(TemplateVersionManifest, JSON.parse(await readFile(join(folder, VERSION_FILES.manifest), 'utf8')));
}

/** Describes a version that was just built, or with `packagesAt` an earlier one that is published again. */
export function describeVersion(
  recipe: Recipe,
  { packages, builtAt, packagesAt }: { packages: InstalledPackages; builtAt: string; packagesAt?: string },
): TemplateVersion {
  const age = { builtAt, ...(packagesAt !== undefined && { packagesAt }) };
  const digest = versionDigest(recipeDigest(recipe), { packages, ...age });
  return {
    ...versionNames(digest, builtAt),
    slug: recipe.slug,
    description: recipe.description,
    digest,
    languages: recipe.languages,
    packages,
    env: templateEnvironment(recipe),
    ...age,
  };
}

/** Returns the digest that a version with this recipe and these packages has. */
export function versionDigest(
  recipe: string,
  { packages, builtAt, packagesAt }: Pick<TemplateVersion, 'packages' | 'builtAt' | 'packagesAt'>,
): string {
  // What is published again has the packages of another version, and must not have its id.
  const again = packagesAt !== undefined && { builtAt, packagesAt };
  return createHash('sha256')
    .update(canonicalJson({ recipe, packages, ...again }))
    .digest('hex');
}

/** Returns the id of a version, and its name for people. */
export function versionNames(digest: string, builtAt: string): Pick<TemplateVersion, 'id' | 'version'> {
  return {
    id: `tplv_${digest.slice(0, 20)}`,
    version: `${builtAt.slice(0, 10).replaceAll('-', '.')}-${digest.slice(0, 8)}`,
  };
}

/**
 * Publishes a folder of the same file system as a version, which exists whole or not at all. The caller holds the
 * template's lock.
 */
export async function publishVersion(folder: string, manifest: TemplateVersion, cacheDir: string): Promise<void> {
  const { templatesDir } = cachePaths(cacheDir);
  const parent = join(templatesDir, manifest.slug);
  await mkdir(parent, { recursive: true });
  // SECURITY: a template contains set-user-id programs; other users of this host must not be able to list them.
  await chmod(templatesDir, 0o711);
  await chmod(parent, 0o711);
  await rename(folder, versionFolder(manifest, cacheDir));
}

/** Writes what a version's folder has beside its root file system. */
export async function writeDescription(folder: string, manifest: TemplateVersion, recipe: Recipe): Promise<void> {
  await writeFile(join(folder, VERSION_FILES.manifest), `${JSON.stringify(manifest, null, 2)}\n`);
  await writeFile(join(folder, VERSION_FILES.recipeDigest), recipeDigest(recipe));
}

/** Waits until a folder is on the disk: after a power cut, its published name could otherwise exist without its files. */
export async function syncFolder(folder: string, logFile: string): Promise<void> {
  await runLogged('sync', ['--file-system', folder], { logFile });
}

/** Returns the file that a build or a publication of a template locks. */
export function templateLock(slug: string, cacheDir: string): string {
  return join(cacheDir, 'building', `${slug}.lock`);
}

/** Deletes a folder without crossing file systems: a mount below it must not be emptied. */
export async function removeFolder(folder: string): Promise<void> {
  await runLogged('rm', ['--recursive', '--force', '--one-file-system', folder], { logFile: '/dev/null' });
}
