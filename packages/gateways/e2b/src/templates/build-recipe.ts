import { posix } from 'node:path';
import { LIMITS, type TemplateRecipe, type TemplateSetupStep } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import { slugOf } from '../control/template-name.ts';
import { type BuildRequest, markOf } from './build-id.ts';
import { copySteps } from './copy-step.ts';
import type { RegistryAccount } from './registry-account.ts';

export interface BuildStep {
  readonly type: string;
  readonly args?: readonly string[] | null;
  readonly filesHash?: string | null;
  readonly force?: boolean | null;
}

/** The body with which E2B's clients start a build. */
export interface StartBuild {
  readonly fromImage?: string | null;
  readonly fromTemplate?: string | null;
  readonly fromImageRegistry?: RegistryAccount | null;
  readonly startCmd?: string | null;
  readonly readyCmd?: string | null;
  readonly force?: boolean | null;
  readonly steps?: readonly BuildStep[] | null;
}

const HOMES = { root: '/root', user: '/home/user' } as const;
type User = keyof typeof HOMES;

/** Finds the artifact with the files of a `COPY` by the hash that the client gives. */
export type FindFiles = (hash: string) => Promise<string>;
/** An image with an account, in the form of a recipe. */
type PrivateImage = Extract<TemplateRecipe['from'], { readonly image: string }>;

export interface RecipeDeps {
  readonly findFiles: FindFiles;
  /** Stores the password of an account, and returns how a recipe names it. */
  storeAccount(image: string, account: RegistryAccount): Promise<NonNullable<PrivateImage['credentials']>>;
}

/** Translates a build to a recipe of `/v1`. @throws GatewayError for what recipes cannot do. */
export async function recipeOf(body: StartBuild, request: BuildRequest, deps: RecipeDeps): Promise<TemplateRecipe> {
  refuseCommands(body);
  const from = await originOf(body, deps);
  const steps = new Steps(deps.findFiles);
  if (body.force) steps.runAgain(request);
  for (const step of body.steps ?? []) await steps.add(step, request);
  const setup = [...steps.setup, { run: markOf(request.name) }];
  if (setup.length > LIMITS.templateSetupSteps) {
    const most = `at most ${LIMITS.templateSetupSteps - 1} steps, and a copy counts twice`;
    throw new GatewayError(400, `The template has ${setup.length - 1} steps for Cloche; a template has ${most}.`);
  }
  const { resources } = request;
  return { from, setup, ...(Object.keys(resources).length > 0 && { resources }) };
}

function refuseCommands({ startCmd, readyCmd }: StartBuild): void {
  if (!startCmd && !readyCmd) return;
  const instead = 'start the process with `commands.run` in each sandbox';
  throw new GatewayError(
    501,
    `Cloche does not start commands of a template (setStartCmd, setReadyCmd) yet; ${instead}.`,
  );
}

async function originOf(
  { fromImage, fromTemplate, fromImageRegistry }: StartBuild,
  { storeAccount }: RecipeDeps,
): Promise<TemplateRecipe['from']> {
  if (fromTemplate) return slugOf(fromTemplate);
  const image = fromImage?.replace(/:latest$/, '');
  if (image === 'e2bdev/base' || image === 'e2bdev/code-interpreter') return slugOf('base');
  if (!fromImage) throw new GatewayError(400, 'The template names neither fromImage nor fromTemplate.');
  if (!fromImageRegistry) return { image: fromImage };
  return { image: fromImage, credentials: await storeAccount(fromImage, fromImageRegistry) };
}

/** The steps of a recipe, with the user, the directory and the variables that the steps before have set. */
class Steps {
  readonly setup: TemplateSetupStep[] = [];
  readonly #findFiles: FindFiles;
  #user: User = 'user';
  #cwd: string = HOMES.user;
  #env: Record<string, string> = {};
  /** Shell lines that set variables whose values name others. */
  #exports = '';
  #runsAgain = false;

  constructor(findFiles: FindFiles) {
    this.#findFiles = findFiles;
  }

  /** Makes all steps from here on differ from those of earlier builds. */
  runAgain({ name }: BuildRequest): void {
    if (this.#runsAgain) return;
    this.#runsAgain = true;
    this.setup.push({ run: `: without the cache of builds before ${name}` });
  }

  async add({ type, args, filesHash, force }: BuildStep, request: BuildRequest): Promise<void> {
    if (force) this.runAgain(request);
    const given = args ?? [];
    const [first = ''] = given;
    switch (type.toUpperCase()) {
      case 'RUN':
        this.#run(first, given[1] ? userOf(given[1]) : this.#user);
        return;
      case 'USER':
        this.#user = userOf(first);
        return;
      case 'WORKDIR':
        this.#cwd = this.#pathOf(first);
        this.#run('mkdir -p -- "$WORKDIR"', this.#user, { WORKDIR: this.#cwd }, '/');
        return;
      case 'ENV':
        this.#set(given);
        return;
      case 'COPY': {
        const [source = '', target = '', ...rest] = given;
        const copied = [source, target.replace(/^~(?=\/|$)/, HOMES[this.#user]), ...rest];
        const artifactId = await this.#findFiles(filesHash ?? '');
        const copy = { args: copied, artifactId, user: this.#user, cwd: this.#cwd };
        this.setup.push(...copySteps(copy, this.setup.length));
        return;
      }
      default:
        throw new GatewayError(501, `Cloche does not have the step ${type} of templates yet; leave it out.`);
    }
  }

  #run(line: string, as: User, env = this.#env, cwd = this.#cwd): void {
    if (line === '') throw new GatewayError(400, 'RUN needs a command.');
    this.setup.push({ run: this.#exports + line, as, cwd, env });
  }

  #set(pairs: readonly string[]): void {
    for (let at = 0; at < pairs.length; at += 2) {
      const [name = '', value = ''] = pairs.slice(at, at + 2);
      if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
        throw new GatewayError(400, `"${name}" is not the name of a variable.`);
      if (value.includes('$')) this.#exports += `export ${name}="${value.replaceAll(/["\\`]/g, '\\$&')}"\n`;
      else this.#env = { ...this.#env, [name]: value };
    }
  }

  #pathOf(path: string): string {
    if (path === '') throw new GatewayError(400, 'WORKDIR needs a path.');
    const home = HOMES[this.#user];
    return posix.resolve(this.#cwd, path.replace(/^~(?=\/|$)/, home));
  }
}

function userOf(name: string): User {
  if (name === 'root' || name === 'user') return name;
  throw new GatewayError(501, `Cloche does not run steps of a template as "${name}" yet; use root or user.`);
}
