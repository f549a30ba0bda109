import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ID_PREFIXES, isImageName, type RegistryImage, type SecretId, type TemplateRecipe } from '@cloche/contract';
import { BuildContext, makeRecipe, type ReadOptions, readDockerfile, readFrom } from '@cloche/dockerfile';
import type { ImageConfig } from '@cloche/image-archive';
import { type Cloche, isClocheError } from '@cloche/sdk';
import type { Command } from 'commander';
import { CliError, UsageError } from '../cli-error.ts';
import { leaf, perform } from '../command.ts';
import { watchForInterruption } from '../interruption.ts';
import { keyValue, wholeNumber } from '../option-values.ts';
import type { Session } from '../session.ts';
import { BuildUpload } from '../templates/build-upload.ts';
import { readImageArchive } from '../templates/image-archive.ts';
import { buildTemplate, type NamedTemplate, type TitledRecipe } from './build-template.ts';

interface BuildFlags extends NamedTemplate {
  file?: string;
  buildArg?: Record<string, string>;
  image?: string;
  disk?: number;
  registryUser?: string;
  registrySecret?: string;
  registryCa?: string;
}

/** The state in which a Dockerfile begins: environment, directory and user of the curated templates. */
const BASE = {
  baseEnv: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' },
  baseWorkdir: '/workspace',
};

/** The base of a Dockerfile. `from` is that of the recipe; without it, the recipe takes the name after `FROM`. */
interface Start {
  readonly base: Omit<ReadOptions, 'buildArgs'>;
  readonly from?: () => Promise<Exclude<TemplateRecipe['from'], string>>;
  /** Title of the step that downloads the image. */
  readonly title?: string;
}

export function addTemplateBuildCommand(template: Command): void {
  const command = leaf(template, 'build [folder]', 'Build a template from a Dockerfile or a template.json', [
    'cloche template build --slug reports .',
    'cloche template build --slug reports -f docker/Dockerfile --build-arg VERSION=2 .',
    'cloche template build --slug reports -f template.json',
    'cloche template build --slug reports --image debian.tar .',
  ])
    .requiredOption('--slug <slug>', 'name of the template, which is created if it does not exist')
    .option(
      '-f, --file <file>',
      'Dockerfile, or recipe that ends with .json (default: Dockerfile or template.json of the folder)',
    )
    .option('--build-arg <key=value>', 'value of an ARG; repeatable', keyValue)
    .option('--image <archive>', 'image that FROM stands for: an archive of `docker save`, or an oci-archive')
    .option('--registry-user <name>', 'account with which the image of FROM is downloaded')
    .option('--registry-secret <id>', 'secret with the password of --registry-user')
    .option('--registry-ca <file>', 'certificates of further authorities of the registry, as PEM')
    .option('--disk <mib>', 'disk of the build and of its sandboxes, in MiB (default: 2048)', wholeNumber)
    .option('--description <text>', 'what a new template contains');
  perform(command, build);
}

async function build(session: Session, flags: BuildFlags, folder = '.'): Promise<void> {
  using interruption = watchForInterruption();
  const { signal } = interruption;
  const file = flags.file ?? defaultFile(folder);
  const cloche = await session.connect();
  await using upload = new BuildUpload(cloche, session.terminal, signal);
  const prepare = file.endsWith('.json') ? prepareRecipe : prepareDockerfile;
  const prepared = await prepare({ session, cloche, file, folder, flags, upload, signal });
  await buildTemplate(session, cloche, flags, prepared, signal);
}

function defaultFile(folder: string): string {
  const found = ['Dockerfile', 'template.json'].map((name) => join(folder, name)).find((each) => existsSync(each));
  if (found === undefined)
    throw new UsageError(`${folder} has neither a Dockerfile nor a template.json; name one with --file.`);
  return found;
}

type KnownSettings = Pick<ImageConfig, 'env' | 'workdir' | 'user' | 'onBuild'> & Partial<Pick<ImageConfig, 'shell'>>;

interface Preparation {
  readonly session: Session;
  readonly cloche: Cloche;
  readonly file: string;
  readonly folder: string;
  readonly flags: BuildFlags;
  readonly upload: BuildUpload;
  /** Aborts at an interruption. */
  readonly signal: AbortSignal;
}

async function prepareRecipe({ file, flags, upload }: Preparation): Promise<TitledRecipe> {
  const { image, disk } = flags;
  if (hasRegistry(flags)) throw new UsageError(`Set from in ${file} instead of --registry-user, -secret and -ca.`);
  if (disk !== undefined) throw new UsageError(`Set resources.diskMb in ${file} instead of --disk.`);
  const recipe = parseRecipe(file, await readText(file));
  if (image === undefined) return { recipe, titles: [] };
  return { recipe: { ...recipe, from: { artifactId: await upload.storeFile(image) } }, titles: [`FROM ${image}`] };
}

function parseRecipe(file: string, text: string): TemplateRecipe {
  try {
    // The service checks the fields.
    return JSON.parse(text) as TemplateRecipe;
  } catch (error) {
    throw new CliError(`${file} is not valid JSON: ${(error as Error).message}.`);
  }
}

async function prepareDockerfile(preparation: Preparation): Promise<TitledRecipe> {
  const { session, file, folder, flags, upload } = preparation;
  const { buildArg: buildArgs = {}, disk } = flags;
  const source = await readText(file);
  try {
    const { base, from, title } = await startOf(source, preparation);
    const plan = readDockerfile(source, { ...base, buildArgs });
    for (const warning of plan.warnings) await session.note(`${file}: ${warning}`);
    const { recipe, titles, lines } = await makeRecipe(plan, {
      context: new BuildContext(folder, file),
      upload: (...args) => upload.store(...args),
      ...(from && { from }),
    });
    // Downloading an image is the first step of a build. Starting from a template is no step.
    const first = title === undefined ? [] : [title];
    return {
      recipe: { ...recipe, ...(disk !== undefined && { resources: { diskMb: disk } }) },
      titles: [...first, ...titles],
      places: [...first.map(() => plan.from.line), ...lines].map((line) => `${file}:${line}`),
    };
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'bad_dockerfile')
      throw new CliError(`${file}: ${error.message}`);
    throw error;
  }
}

async function startOf(source: string, { cloche, flags, upload, signal }: Preparation): Promise<Start> {
  const { image, buildArg = {} } = flags;
  const registry = await registryOf(flags);
  if (image !== undefined) {
    const base = baseOf(await readImageArchive(image));
    return { base, from: async () => ({ artifactId: await upload.storeFile(image) }), title: `FROM ${image}` };
  }
  const { name } = readFrom(source, { buildArgs: buildArg });
  if (name === 'scratch' || (!registry && !(await isImage(cloche, name, signal)))) return { base: BASE };
  const from: RegistryImage = { image: name, ...registry };
  const title = `FROM ${name}`;
  const settings = await cloche.templates.inspectImage(from, { signal });
  // By digest, because the tag may name another image by the time of the build.
  return { base: baseOf(settings), from: async () => ({ ...from, image: settings.name }), title };
}

/** Whether `FROM` names an image, because no template has this name. */
async function isImage(cloche: Cloche, name: string, signal: AbortSignal): Promise<boolean> {
  if (isImageName(name)) return true;
  if (name.startsWith(ID_PREFIXES.template) || name.startsWith(ID_PREFIXES.templateVersion)) return false;
  try {
    await cloche.templates.get(name, { signal });
    return false;
  } catch (error) {
    if (isClocheError(error, 'not_found')) return true;
    throw error;
  }
}

function hasRegistry({ registryUser, registrySecret, registryCa }: BuildFlags): boolean {
  return [registryUser, registrySecret, registryCa].some((each) => each !== undefined);
}

/** Returns how the image of `FROM` is downloaded; undefined without flags that say so. */
async function registryOf(flags: BuildFlags) {
  const { image, registryUser: username, registrySecret, registryCa } = flags;
  if (!hasRegistry(flags)) return undefined;
  if (image !== undefined) throw new UsageError(`--image ${image} is not downloaded; leave out --registry-….`);
  if ((username === undefined) !== (registrySecret === undefined))
    throw new UsageError('--registry-user and --registry-secret need each other.');
  return {
    // The service checks the id.
    ...(username !== undefined && { credentials: { username, secretId: registrySecret as SecretId } }),
    ...(registryCa !== undefined && { caCertificates: await readText(registryCa) }),
  };
}

/** Returns what the instructions after `FROM` begin with, as in Docker. */
function baseOf({ env, workdir, user, shell, onBuild }: KnownSettings): Start['base'] {
  return {
    baseEnv: { ...BASE.baseEnv, ...env },
    baseWorkdir: workdir,
    ...(user !== '' && { baseUser: user }),
    ...(shell && { baseShell: shell }),
    baseTriggers: onBuild,
  };
}

async function readText(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new CliError(`${file} cannot be read: ${error.code === 'ENOENT' ? 'it does not exist' : error.message}.`);
  });
}
