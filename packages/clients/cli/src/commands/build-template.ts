import type { TemplateBuild, TemplateRecipe } from '@cloche/contract';
import { type Cloche, isClocheError } from '@cloche/sdk';
import { CliError } from '../cli-error.ts';
import { madeDespite, TAKING_BACK } from '../interruption.ts';
import type { Session } from '../session.ts';
import { BuildProgress } from '../templates/build-progress.ts';

/** The template that a command builds. */
export interface NamedTemplate {
  readonly slug: string;
  readonly description?: string;
}

/** A recipe with the titles of its steps, where the caller wrote them differently. */
export interface TitledRecipe {
  readonly recipe: TemplateRecipe;
  readonly titles: readonly string[];
  /** Where each step is written, such as `Dockerfile:2`. */
  readonly places?: readonly string[];
}

/**
 * Builds a template, prints the build until it has ended, and prints the version. An interruption cancels the build.
 */
export async function buildTemplate(
  session: Session,
  cloche: Cloche,
  template: NamedTemplate,
  { recipe, titles, places = [] }: TitledRecipe,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  const begun = await madeDespite(signal, begin(cloche, template, recipe));
  const ended = await follow(session, cloche, begun, titles, signal);
  if (ended.status === 'succeeded') {
    await session.show(ended, () => `${ended.templateSlug} ${ended.templateVersionId ?? ''}`);
    return;
  }
  if (session.json) await session.show(ended, () => '');
  throw new CliError(failureOf(ended, titles, places));
}

/**
 * Builds a version of the template, which is created first if it does not exist. Does not take the signal of an
 * interruption: the id of the build is needed to cancel it.
 */
async function begin(
  cloche: Cloche,
  { slug, description }: NamedTemplate,
  recipe: TemplateRecipe,
): Promise<TemplateBuild> {
  try {
    return await cloche.templates.build(slug, recipe);
  } catch (error) {
    if (!isClocheError(error, 'not_found')) throw error;
  }
  const body = { slug, ...(description !== undefined && { description }), ...recipe };
  try {
    return (await cloche.templates.create(body)).build;
  } catch (error) {
    if (!isClocheError(error, 'conflict')) throw error;
    // Another client may have created it meanwhile.
    return await cloche.templates.build(slug, recipe).catch(() => Promise.reject(error));
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
  using progress = new BuildProgress(session.terminal.err, titles);
  try {
    for await (const event of cloche.templates.followBuild(templateId, id, { signal })) {
      if (event.type === 'complete') {
        if (!session.json) await progress.finish(event.data);
        return event.data;
      }
      if (!session.json) await progress.add(event.data, () => cloche.templates.getBuild(templateId, id, { signal }));
    }
  } catch (error) {
    if (signal.aborted) await cloche.templates.cancelBuild(templateId, id, TAKING_BACK).catch(() => undefined);
    throw error;
  }
  return cloche.templates.waitForBuild({ templateId, id }, { signal });
}

function failureOf(
  { status, error, templateSlug, id }: TemplateBuild,
  titles: readonly string[],
  places: readonly string[],
): string {
  if (status === 'canceled') return `The build ${id} was canceled; start it again with the same command.`;
  const message = error?.message ?? 'The build failed.';
  const [, how] = /^Step \d+ \(.*\) failed\. (.*)$/s.exec(message) ?? [];
  const index = (error?.step ?? 0) - 1;
  // The caller's own words are a line of the Dockerfile.
  const title = titles[index]?.split('\n')[0];
  const why = how === undefined || title === undefined ? message : `${title}: ${inShort(how)}.`;
  const place = places[index];
  return `${place === undefined ? '' : `${place}: `}${why} \`cloche template logs ${templateSlug} ${id}\` prints its log.`;
}

/** Shortens the sentence about how a command ended: `exit code 2`. */
function inShort(how: string): string {
  return how
    .replace(/^It ended with (exit code \d+)\.$/, '$1')
    .replace(/^It was ended by/, 'ended by')
    .replace(/\.$/, '');
}
