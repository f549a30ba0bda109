import { createReadStream, existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { type ArchiveEntry, readTar, refusedEntry } from '@cloche/archive';
import { cachePaths } from '@cloche/layout';
import { withLock } from '../build-lock.ts';
import { SetupError } from '../progress.ts';
import {
  publishVersion,
  readManifest,
  removeFolder,
  syncFolder,
  type TemplateVersion,
  templateLock,
  VERSION_FILES,
  versionDigest,
  versionFolder,
  versionNames,
} from '../templates/cached-versions.ts';
import { type ArchivePart, LIST_NAME, readList, type TemplatePart } from './archive-list.ts';
import { megabytes, partTitle } from './export-templates.ts';
import { explainRefusal, TemplateArchiveError } from './template-archive-error.ts';
import { unpackPart } from './unpack-part.ts';

export interface ImportOptions {
  readonly cacheDir: string;
  readonly signal?: AbortSignal;
  readonly step?: <Result>(title: string, work: (note: (text: string) => void) => Promise<Result>) => Promise<Result>;
  readonly now?: () => number;
}

export interface ImportedPart {
  readonly part: ArchivePart;
  /** Undefined for guest files, and for a version that was there. */
  readonly version: TemplateVersion | undefined;
  /** Digest of the recipe that the version was built from. */
  readonly recipeDigest: string | undefined;
  readonly wasThere: boolean;
}

interface StagedPart extends ImportedPart {
  readonly folder: string;
}

/** How far ahead the clock of the machine that exported may be. */
const CLOCK_SKEW_MS = 86_400_000;

/**
 * Imports an untrusted archive of `exportTemplates` into the cache, as root. All of it is unpacked and checked before
 * any of it is published, so an import that fails or is killed changes nothing. Repeatable, and safe beside builds and
 * other imports.
 *
 * @throws {SetupError} that names what is wrong with the archive
 */
export async function importTemplates(file: string, options: ImportOptions): Promise<ImportedPart[]> {
  const { cacheDir } = options;
  const building = join(cacheDir, 'building');
  await mkdir(building, { recursive: true });
  // SECURITY: other users of this host cannot enter it, and so not run set-user-id programs of the archive.
  const staging = await mkdtemp(join(building, 'importing-'));
  try {
    const staged = await unpackAll(file, staging, options);
    await (options.step ?? withoutStep)('publication', async (note) => {
      await syncFolder(staging, join(building, 'import.log'));
      const onWait = () => note('another process is building this template');
      for (const part of staged) if (!part.wasThere) await publish(part, cacheDir, onWait);
    });
    return staged.map(({ folder: _folder, ...imported }) => imported);
  } catch (error) {
    throw explainRefusal(file, error);
  } finally {
    await removeFolder(staging);
  }
}

const withoutStep: NonNullable<ImportOptions['step']> = (_title, work) => work(() => undefined);

async function unpackAll(file: string, staging: string, options: ImportOptions): Promise<StagedPart[]> {
  const { cacheDir, signal = new AbortController().signal, step = withoutStep } = options;
  const staged: StagedPart[] = [];
  let parts: ArchivePart[] | undefined;
  for await (const entry of readTar(createReadStream(file, { highWaterMark: 256 * 1024, signal }))) {
    if (parts === undefined) {
      parts = readFirst(entry);
      await requireSpace(parts, cacheDir);
      continue;
    }
    const part = parts[staged.length];
    if (part?.name !== entry.name || entry.type !== 'file' || part.sizeBytes !== entry.sizeBytes)
      throw refusedEntry(entry.name, 'is not what the list of the archive names in this place');
    const folder = join(staging, String(staged.length));
    const imported = await step(partTitle(part), async (note) => {
      note(megabytes(part.sizeBytes));
      if (existsSync(publishedFolder(part, cacheDir))) {
        note('is there');
        return { part, version: undefined, recipeDigest: undefined, wasThere: true };
      }
      try {
        await unpackPart(entry.content as AsyncIterable<Buffer>, part, folder, signal);
        return { part, ...(await checkedVersion(part, folder, options)), wasThere: false };
      } catch (error) {
        throw explainRefusal(file, error);
      }
    });
    staged.push({ ...imported, folder });
  }
  if (parts === undefined) throw new TemplateArchiveError('it is empty');
  const missing = parts[staged.length];
  if (missing) throw new TemplateArchiveError(`it ends before ${missing.name}`);
  return staged;
}

function readFirst({ name, bytes }: ArchiveEntry): ArchivePart[] {
  if (name !== LIST_NAME || bytes === undefined)
    throw new TemplateArchiveError('it is no archive of `cloche template export`');
  return readList(bytes).parts;
}

async function requireSpace(parts: readonly ArchivePart[], cacheDir: string): Promise<void> {
  const { bavail, bsize } = await statfs(cacheDir);
  const wanted = parts
    .filter((part) => !existsSync(publishedFolder(part, cacheDir)))
    .reduce((sum, { plainBytes }) => sum + plainBytes, 0);
  if (wanted <= bavail * bsize) return;
  throw new SetupError(
    `The archive takes ${megabytes(wanted)} in ${cacheDir}, where ${megabytes(bavail * bsize)} are free.`,
    'Free space there, or set CLOCHE_CACHE_DIR to a folder of another disk; nothing was imported.',
  );
}

/** Checks that a version is what the list names, and what its own manifest says. */
async function checkedVersion(
  part: ArchivePart,
  folder: string,
  { now = Date.now }: ImportOptions,
): Promise<Pick<ImportedPart, 'version' | 'recipeDigest'>> {
  if (part.kind === 'guest') return { version: undefined, recipeDigest: undefined };
  const recipeDigest = await readFile(join(folder, VERSION_FILES.recipeDigest), 'latin1');
  const version = await readManifest(folder).catch(() => {
    throw new TemplateArchiveError(`the manifest of ${part.slug} is invalid`);
  });
  const problem = problemOf(version, recipeDigest, part, now());
  if (problem !== undefined) throw new TemplateArchiveError(`the manifest of ${part.slug} ${problem}`);
  return { version, recipeDigest };
}

function problemOf(version: TemplateVersion, recipe: string, part: TemplatePart, now: number): string | undefined {
  if (version.slug !== part.slug) return `names the template ${JSON.stringify(version.slug)}`;
  if (version.digest !== part.digest || versionDigest(recipe, version) !== part.digest)
    return 'describes packages of another digest';
  const names = versionNames(version.digest, version.builtAt);
  if (version.id !== names.id || version.version !== names.version) return 'has the id of another version';
  for (const time of [version.builtAt, version.packagesAt ?? version.builtAt]) {
    if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(time) || Number.isNaN(Date.parse(time)))
      return `has the invalid time ${JSON.stringify(time.slice(0, 40))}`;
    // Else it would stay the newest version, whatever is built here.
    if (Date.parse(time) > now + CLOCK_SKEW_MS) return `has the time ${time}, which is yet to come`;
  }
  return undefined;
}

async function publish({ part, version, folder }: StagedPart, cacheDir: string, onWait: () => void): Promise<void> {
  if (version === undefined) return publishGuest(folder, publishedFolder(part, cacheDir), cacheDir);
  const publishFirst = async () => {
    // Another import may have been faster.
    if (!existsSync(publishedFolder(part, cacheDir))) await publishVersion(folder, version, cacheDir);
  };
  await withLock(templateLock(version.slug, cacheDir), publishFirst, onWait);
}

async function publishGuest(folder: string, published: string, cacheDir: string): Promise<void> {
  await mkdir(cachePaths(cacheDir).guestDir, { recursive: true });
  await rename(folder, published).catch((error: unknown) => {
    if (!existsSync(published)) throw error;
  });
}

function publishedFolder(part: ArchivePart, cacheDir: string): string {
  return part.kind === 'guest' ? join(cachePaths(cacheDir).guestDir, part.digest) : versionFolder(part, cacheDir);
}
