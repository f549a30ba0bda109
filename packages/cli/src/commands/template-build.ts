import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TemplateBuild, TemplateRecipe } from '@cloche/contract';
import { BuildContext, makeRecipe, readDockerfile } from '@cloche/dockerfile';
import { type Cloche, isClocheError } from '@cloche/sdk';
import type { Command } from 'commander';
import { CliError, UsageError } from '../cli-error.ts';
import { leaf, perform } from '../command.ts';
import { watchForInterruption } from '../interruption.ts';
import { keyValue } from '../option-values.ts';
import type { Session } from '../session.ts';
import { BuildProgress } from '../templates/build-progress.ts';
import { ContextUpload } from '../templates/upload-context.ts';

interface BuildFlags {
  slug: string;
  file?: string;
  buildArg?: Record<string, string>;
  description?: string;
}

/** Environment and directory that a Dockerfile begins with: those of the curated templates. */
const BASE = {
  baseEnv: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' },
  baseWorkdir: '/workspace',
};

/** A recipe with the titles of its steps, where the caller wrote them differently. */
interface Prepared {
  readonly recipe: TemplateRecipe;
  readonly titles: readonly string[];
}

export function addTemplateBuildCommand(template: Command): void {
  const command = leaf(template, 'build [folder]', 'Build a template from a Dockerfile or a template.json', [
    'cloche template build --slug reports .',
    'cloche template build --slug reports -f docker/Dockerfile --build-arg VERSION=2 .',
    'cloche template build --slug reports -f template.json',
  ])
    .requiredOption('--slug <slug>', 'name of the template, which is created if it does not exist')
    .option(
      '-f, --file <file>',
      'Dockerfile, or recipe that ends with .json (default: Dockerfile or template.json of the folder)',
    )
    .option('--build-arg <key=value>', 'value of an ARG; repeatable', keyValue)
    .option('--description <text>', 'what a new template contains');
  perform(command, build);
}

async function build(session: Session, flags: BuildFlags, folder = '.'): Promise<void> {
  using interruption = watchForInterruption();
  const { signal } = interruption;
  const file = flags.file ?? defaultFile(folder);
  const cloche = await session.connect();
  await using upload = new ContextUpload(cloche, session.terminal, signal);
  const { recipe, titles } = file.endsWith('.json')
    ? { recipe: await readRecipe(file), titles: [] }
    : await prepareDockerfile(session, file, folder, flags, upload);
  const begun = await begin(cloche, flags, recipe, signal);
  const ended = await follow(session, cloche, begun, titles, signal);
  if (ended.status === 'succeeded') {
    await session.show(ended, () => `${ended.templateSlug} ${ended.templateVersionId ?? ''}`);
    return;
  }
  if (session.json) await session.show(ended, () => '');
  throw new CliError(failureOf(ended));
}

function defaultFile(folder: string): string {
  const found = ['Dockerfile', 'template.json'].map((name) => join(folder, name)).find((each) => existsSync(each));
  if (found === undefined)
    throw new UsageError(`${folder} has neither a Dockerfile nor a template.json; name one with --file.`);
  return found;
}

async function readRecipe(file: string): Promise<TemplateRecipe> {
  const text = await readText(file);
  try {
    // The service checks the fields.
    return JSON.parse(text) as TemplateRecipe;
  } catch (error) {
    throw new CliError(`${file} is not valid JSON: ${(error as Error).message}.`);
  }
}

async function prepareDockerfile(
  session: Session,
  file: string,
  folder: string,
  { buildArg = {} }: BuildFlags,
  upload: ContextUpload,
): Promise<Prepared> {
  const source = await readText(file);
  try {
    const plan = readDockerfile(source, { ...BASE, buildArgs: buildArg });
    for (const warning of plan.warnings) await session.note(`${file}: ${warning}`);
    const context = new BuildContext(folder, file);
    const { recipe, titles } = await makeRecipe(plan, { context, upload: (...args) => upload.store(...args) });
    return { recipe, titles };
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'bad_dockerfile')
      throw new CliError(`${file}: ${error.message}`);
    throw error;
  }
}

async function readText(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new CliError(`${file} cannot be read: ${error.code === 'ENOENT' ? 'it does not exist' : error.message}.`);
  });
}

/** Builds a version of the template, which is created first if it does not exist. */
async function begin(
  cloche: Cloche,
  { slug, description }: BuildFlags,
  recipe: TemplateRecipe,
  signal: AbortSignal,
): Promise<TemplateBuild> {
  try {
    return await cloche.templates.build(slug, recipe, { signal });
  } catch (error) {
    if (!isClocheError(error, 'not_found')) throw error;
    const body = { slug, ...(description !== undefined && { description }), ...recipe };
    return (await cloche.templates.create(body, { signal })).build;
  }
}

/** Prints the build until it has ended. An interruption cancels it. */
async function follow(
  session: Session,
  cloche: Cloche,
  { templateId, id }: TemplateBuild,
  titles: readonly string[],
  signal: AbortSignal,
): Promise<TemplateBuild> {
  const progress = new BuildProgress(session.terminal.err, titles);
  try {
    for await (const event of cloche.templates.followBuild(templateId, id, { signal })) {
      if (event.type === 'complete') {
        if (!session.json) await progress.finish(event.data);
        return event.data;
      }
      if (!session.json) await progress.add(event.data, () => cloche.templates.getBuild(templateId, id, { signal }));
    }
  } catch (error) {
    if (signal.aborted) await cloche.templates.cancelBuild(templateId, id);
    throw error;
  }
  return cloche.templates.waitForBuild({ templateId, id }, { signal });
}

function failureOf({ status, error, templateSlug, id }: TemplateBuild): string {
  if (status === 'canceled') return `The build ${id} was canceled; start it again with the same command.`;
  const why = error?.message ?? 'The build failed.';
  return `${why} See its log with \`cloche template logs ${templateSlug} ${id}\`.`;
}
