/** Actions of the commands for curated templates: export, import, refresh and revert. */
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { CliError, type Session, UsageError, watchForInterruption } from '@cloche/cli/kit';
import { effectiveSettings, settingsFor } from '@cloche/settings';
import { remedyOf } from '../host/prepare-host.ts';
import {
  createProgress,
  describeFailure,
  type Progress,
  type Remedy,
  SetupError,
  silentProgress,
} from '../progress.ts';
import { CommandFailedError } from '../run-logged.ts';
import { exportTemplates, megabytes } from '../template-archive/export-templates.ts';
import { importTemplates } from '../template-archive/import-templates.ts';
import { ensureTemplate, refreshTemplate, republishTemplate } from '../templates/build-template.ts';
import { findTemplate, listVersions, type TemplateVersion } from '../templates/cached-versions.ts';
import { RECIPES_FOLDER, type Recipe, readRecipes, recipeDigest } from '../templates/recipe.ts';

interface Work {
  readonly cacheDir: string;
  readonly progress: Progress;
}

/**
 * Writes an archive with the newest versions of curated templates, all of them by default, and with guest files. Builds
 * what this machine lacks.
 */
export async function exportArchive(session: Session, file: string, slugs: readonly string[]): Promise<void> {
  await asRoot(session, async ({ cacheDir, progress }) => {
    const templates: TemplateVersion[] = [];
    for (const recipe of await recipesOf(slugs)) {
      const built = await findTemplate(recipe, cacheDir);
      templates.push(built ?? (await build(recipe, cacheDir, progress)));
    }
    const { buildGuest } = await import('@cloche/agent/build-guest');
    const { guestDir } = await buildGuest({ cacheDir });
    const remedy = 'The file was not changed; look for free space where it is written.';
    const step = stepOf(progress, remedy);
    const parts = await interruptible((signal) =>
      exportTemplates(file, { cacheDir, templates, guestDir, signal, step }),
    );
    const { size: sizeBytes } = await stat(file);
    const exported = templates.map(({ slug, id, version }) => ({ slug, id, version }));
    await session.show({ file, sizeBytes, templates: exported, guestFiles: basename(guestDir), parts }, () => file);
    await session.note(`${megabytes(sizeBytes)}; import it with \`cloche template import ${basename(file)}\``);
  });
}

function build(recipe: Recipe, cacheDir: string, progress: Progress): Promise<TemplateVersion> {
  return progress.step(`build of template ${recipe.slug}`, remedyOf, async (note) => {
    note('built once, which takes a minute or two');
    return ensureTemplate(recipe, { cacheDir, onWait: () => note('another process is building it') });
  });
}

/** Imports an archive of `exportArchive`. */
export async function importArchive(session: Session, file: string): Promise<void> {
  await asRoot(session, async ({ cacheDir, progress }) => {
    const step = stepOf(progress, 'Nothing was imported.');
    const parts = await interruptible((signal) => importTemplates(file, { cacheDir, signal, step }));
    const own = new Map((await readRecipes(RECIPES_FOLDER)).map((recipe) => [recipe.slug, recipeDigest(recipe)]));
    const data = parts.map(({ part, version, wasThere }) => ({
      ...(part.kind === 'template' && { slug: part.slug, id: `tplv_${part.digest.slice(0, 20)}` }),
      ...(version && { version: version.version }),
      kind: part.kind,
      digest: part.digest,
      status: wasThere ? 'present' : 'imported',
    }));
    const templates = data.filter(({ kind }) => kind === 'template');
    await session.show({ data }, () => templates.map(({ slug, id }) => `${slug} ${id}`).join('\n'));
    for (const { version, recipeDigest: built } of parts) {
      if (!version || own.get(version.slug) === built) continue;
      await session.note(`${version.slug} is of another release; \`cloche start\` builds the template of this one`);
    }
  });
}

/** Builds curated templates anew, all of them by default. */
export async function refreshTemplates(session: Session, slugs: readonly string[]): Promise<void> {
  await asRoot(session, async ({ cacheDir, progress }) => {
    const data: (Pick<TemplateVersion, 'slug' | 'id' | 'version'> & { status: 'built' | 'unchanged' })[] = [];
    const remedy = (error: unknown) => `${remedyOf(error)} The version before stays in use.`;
    for (const recipe of await recipesOf(slugs)) {
      await progress.step(`template ${recipe.slug}`, remedy, async (note) => {
        const onWait = () => note('another process is building it');
        const { version, isNew } = await refreshTemplate(recipe, { cacheDir, onWait });
        note(isNew ? version.version : 'unchanged: no package is newer');
        const { slug, id, version: name } = version;
        data.push({ slug, id, version: name, status: isNew ? 'built' : 'unchanged' });
      });
    }
    await session.show({ data }, () => data.map(({ slug, id }) => `${slug} ${id}`).join('\n'));
    if (data.some(({ status }) => status === 'built')) await session.note(OFFERED);
  });
}

/** Publishes an earlier version again, by default the one before the newest. */
export async function revertTemplate(session: Session, slug: string, wanted: string | undefined): Promise<void> {
  await asRoot(session, async ({ cacheDir, progress }) => {
    const [recipe] = (await recipesOf([slug])) as [Recipe];
    const [newest, ...earlier] = await listVersions(recipe, cacheDir);
    const found =
      wanted === undefined ? earlier[0] : earlier.find(({ id, version }) => id === wanted || version === wanted);
    if (newest === undefined || found === undefined) {
      const known = earlier.map(({ id, version }) => `${version} (${id})`).join(', ') || 'none';
      throw new CliError(
        `This machine has no such earlier version of ${slug}; earlier versions of its recipe: ${known}.`,
      );
    }
    const version = await progress.step(`template ${slug}`, remedyOf, () =>
      republishTemplate(recipe, found, { cacheDir }),
    );
    await session.show(
      { slug, id: version.id, version: version.version, repeats: found.id },
      () => `${slug} ${version.id}`,
    );
    await session.note(`It repeats ${found.version}. ${OFFERED}`);
  });
}

const OFFERED = 'A running service offers it within half a minute; sandboxes keep their version.';

async function asRoot(session: Session, work: (work: Work) => Promise<void>): Promise<void> {
  if (process.getuid?.() !== 0) throw new CliError('Curated templates have files of root; run this command as root.');
  const { err } = session.terminal;
  const terminal = { isTTY: err.isTerminal, columns: err.columns, write: err.write };
  const { CLOCHE_CACHE_DIR: cacheDir = '' } = settingsFor('setup', effectiveSettings(process.env));
  try {
    await work({ cacheDir, progress: session.json ? silentProgress : createProgress(terminal) });
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    const hasLog = error.cause instanceof CommandFailedError;
    throw new CliError(hasLog ? describeFailure(error) : `${error.message} ${error.remedy}`);
  }
}

/** Runs work that cleans up when it is aborted, which an interruption such as Ctrl-C does. */
async function interruptible<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  using interruption = watchForInterruption();
  try {
    return await work(interruption.signal);
  } catch (error) {
    interruption.signal.throwIfAborted();
    throw error;
  }
}

function stepOf(progress: Progress, remedy: Remedy) {
  return <Result>(title: string, work: (note: (text: string) => void) => Promise<Result>) =>
    progress.step(title, remedy, work);
}

/** Returns the recipes of this release, or those of the names. @throws {UsageError} for a name that it does not have */
async function recipesOf(slugs: readonly string[]): Promise<Recipe[]> {
  const recipes = await readRecipes(RECIPES_FOLDER);
  const known = recipes.map(({ slug }) => slug);
  const unknown = slugs.find((slug) => !known.includes(slug));
  if (unknown !== undefined)
    throw new UsageError(
      `There is no curated template ${JSON.stringify(unknown)}; this release has ${known.join(', ')}.`,
    );
  return slugs.length === 0 ? recipes : recipes.filter(({ slug }) => slugs.includes(slug));
}
