/** Removal of guest folders and template versions that no installation on this host needs any more. */
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { cachePaths, guestUse, recordUse, templateUse } from '@cloche/layout';
import { problemWith, SettingsError } from '@cloche/settings';
import { mountedGuests } from './mounted-guests.ts';

const run = promisify(execFile);

/** Age from which an unfinished build counts as abandoned. Longer than any build takes. */
const ABANDONED_AFTER_MS = 86_400_000;
/**
 * Time that a guest folder is kept after its last use, unless a sandbox has it mounted. Clients cannot request a guest
 * folder, so only running processes need one: hostd records its own once a day, and a start or a restart takes less
 * time. If the host has gVisor sandboxes, guest folders are kept as long as template versions.
 */
const GUEST_RETENTION_MS = 2 * 86_400_000;

export interface CacheRetention {
  readonly cacheDir: string;
  /** Time that an entry is kept after its last use. */
  readonly retentionMs: number;
  readonly now?: () => number;
  readonly procDir?: string;
}

/**
 * Reads the retention time.
 * @throws {SettingsError} for a time so short that a running installation may not have recorded its uses
 */
export function cacheRetentionOf({ CLOCHE_CACHE_RETENTION_MS: text = '' }: Record<string, string | undefined>): number {
  const problem = problemWith('CLOCHE_CACHE_RETENTION_MS', text);
  if (problem === undefined) return Number(text);
  throw new SettingsError(`CLOCHE_CACHE_RETENTION_MS is ${JSON.stringify(text)}: ${problem}.`);
}

/** A guest folder, or a template version other than its template's newest. */
export interface CachedVersion {
  readonly path: string;
  /** Name under which its uses are recorded. */
  readonly use: string;
  /** Undefined where no use was recorded. */
  readonly usedAt: number | undefined;
  readonly isGuest: boolean;
}

export interface UnneededVersion extends CachedVersion {
  /** A use since this time would mean that the entry is needed. */
  readonly usedBefore: number;
}

/** Returns the entries that nothing needs any more, by their last use and by what sandboxes have mounted. */
export async function findUnneeded(
  versions: readonly CachedVersion[],
  { retentionMs, now = Date.now, procDir }: Omit<CacheRetention, 'cacheDir'>,
): Promise<UnneededVersion[]> {
  const guests = versions.filter(({ isGuest }) => isGuest).map(({ path }) => path);
  const { mounted, hasHidden } = await mountedGuests(guests, procDir);
  const guestMs = hasHidden ? retentionMs : Math.min(retentionMs, GUEST_RETENTION_MS);
  return versions.flatMap((version) => {
    const usedBefore = now() - (version.isGuest ? guestMs : retentionMs);
    const isNeeded = mounted.has(version.path) || version.usedAt === undefined || version.usedAt >= usedBefore;
    return isNeeded ? [] : [{ ...version, usedBefore }];
  });
}

/**
 * Removes template versions that were not used for `retentionMs`, and guest folders that were not used for two days and
 * that no sandbox has mounted. Uses that the caller has just recorded count. An entry without a record gets one, and so
 * its full retention time. Safe beside other processes that start, build and remove.
 *
 * @returns the paths removed
 */
export async function removeUnused(options: CacheRetention): Promise<string[]> {
  const { cacheDir, now = Date.now } = options;
  const { usedDir } = cachePaths(cacheDir);
  const versions = await listOldVersions(cacheDir);
  for (const { use, usedAt } of versions) if (usedAt === undefined) recordUse(usedDir, use, new Date(now()));
  const removed: string[] = [];
  for (const { path, use, usedBefore } of await findUnneeded(versions, options)) {
    const isUnused = async () => ((await noteTime(usedDir, use)) ?? 0) < usedBefore;
    if (!(await remove(path, cacheDir, isUnused))) continue;
    await rm(join(usedDir, use), { force: true });
    removed.push(path);
  }
  await removeLeftovers(cacheDir, now() - ABANDONED_AFTER_MS);
  return removed;
}

/** Returns all entries except the newest version of each template. */
export async function listOldVersions(cacheDir: string): Promise<CachedVersion[]> {
  const { guestDir, templatesDir, usedDir } = cachePaths(cacheDir);
  const versions: CachedVersion[] = [];
  const add = async (path: string, use: string, isGuest = false) =>
    versions.push({ path, use, usedAt: await noteTime(usedDir, use), isGuest });
  for (const digest of await names(guestDir)) {
    if (!digest.startsWith('.')) await add(join(guestDir, digest), guestUse(digest), true);
  }
  for (const slug of await names(templatesDir)) {
    const built = await Promise.all(
      (await names(join(templatesDir, slug))).map((digest) => builtTime(join(templatesDir, slug, digest))),
    );
    const byAge = built.filter((each) => each !== undefined).sort((a, b) => b.builtAt - a.builtAt);
    for (const { path } of byAge.slice(1)) await add(path, templateUse(basename(path)));
  }
  return versions;
}

/** Returns the bytes on disk of all paths together. */
export async function sizeOf(paths: readonly string[]): Promise<number> {
  if (paths.length === 0) return 0;
  const { stdout } = await run('du', ['--summarize', '--total', '--block-size=1', '--one-file-system', ...paths]);
  return Number(stdout.trimEnd().split('\n').at(-1)?.split('\t')[0]);
}

/** Moves the entry away, then restores it if a use was recorded meanwhile. */
async function remove(path: string, cacheDir: string, isUnused: () => Promise<boolean>): Promise<boolean> {
  const trash = join(cacheDir, 'building', `removed-${basename(path)}-${process.pid}`);
  await mkdir(join(cacheDir, 'building'), { recursive: true });
  try {
    await rename(path, trash);
  } catch {
    // Another process was faster.
    return false;
  }
  const unused = await isUnused();
  // If another process has rebuilt it meanwhile, this copy is removed.
  if (!unused) await rename(trash, path).catch(() => undefined);
  await removeFolder(trash);
  return unused;
}

/** Removes the remains of interrupted builds, imports and removals. */
async function removeLeftovers(cacheDir: string, before: number): Promise<void> {
  const { guestDir } = cachePaths(cacheDir);
  const remains = [
    ...(await names(guestDir)).filter((name) => name.startsWith('.building-')).map((name) => join(guestDir, name)),
    ...(await names(join(cacheDir, 'building')))
      .filter((name) => name.startsWith('removed-') || name.startsWith('importing-'))
      .map((name) => join(cacheDir, 'building', name)),
  ];
  for (const path of remains) {
    const { ctimeMs = before } = (await stat(path).catch(() => undefined)) ?? {};
    if (ctimeMs < before) await removeFolder(path);
  }
}

/** Deletes a folder without crossing file systems: a mount below it must not be emptied. */
async function removeFolder(path: string): Promise<void> {
  await run('rm', ['--recursive', '--force', '--one-file-system', path]);
}

async function builtTime(path: string): Promise<{ path: string; builtAt: number } | undefined> {
  const manifest = await readFile(join(path, 'manifest.json'), 'utf8').catch(() => undefined);
  if (manifest === undefined) return undefined;
  return { path, builtAt: Date.parse((JSON.parse(manifest) as { builtAt: string }).builtAt) };
}

async function noteTime(usedDir: string, use: string): Promise<number | undefined> {
  return (await stat(join(usedDir, use)).catch(() => undefined))?.mtimeMs;
}

/** Returns the names in a folder; none if it does not exist. */
export async function names(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}
