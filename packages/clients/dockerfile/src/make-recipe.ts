import { buffer } from 'node:stream/consumers';
import { LIMITS, parseImageName, type TemplateRecipe, type TemplateSetupStep } from '@cloche/contract';
import type { BuildContext, CopiedEntry } from './build-context.ts';
import { DockerfileError } from './dockerfile-error.ts';
import { packEntries } from './pack-entries.ts';
import type { CopyStep, DockerfilePlan, PlanStep } from './plan.ts';
import { directoryLine, runLine, unpackLine } from './step-lines.ts';

/**
 * Most bytes of the files that all `COPY` instructions together put into the recipe itself. Larger contents are
 * uploaded.
 */
const INLINE_BYTES = LIMITS.templateContentBytes / 2;

export interface MakeRecipeOptions {
  readonly context: BuildContext;
  /** Stores the packed files of a `COPY` that are too large for the recipe. Returns the id of the artifact. */
  readonly upload: (archive: AsyncIterable<Buffer>, title: string) => Promise<string>;
  /** Stores the image that `FROM` stands for. Default: `FROM` names a template, or an image of a registry. */
  readonly from?: () => Promise<Exclude<TemplateRecipe['from'], string>>;
}

export interface DockerfileRecipe {
  readonly recipe: Pick<TemplateRecipe, 'from' | 'env'> & { setup: TemplateSetupStep[] };
  /** The instruction of each step of `setup`, such as `COPY src /app`. */
  readonly titles: readonly string[];
  /** The line of that instruction in the Dockerfile. */
  readonly lines: readonly number[];
}

/** Turns the plan of a Dockerfile into a recipe, with the files that it copies. @throws {DockerfileError} */
export async function makeRecipe(plan: DockerfilePlan, options: MakeRecipeOptions): Promise<DockerfileRecipe> {
  if (!options.from) requireName(plan.from);
  const making = new Making(options);
  for (const step of plan.steps) await making.add(step);
  return making.finish((await options.from?.()) ?? plan.from.name);
}

function requireName({ line, name }: DockerfilePlan['from']): void {
  if (name === 'scratch')
    throw new DockerfileError(line, 'FROM scratch is not supported: the lines after it need a shell.');
  if (/^[a-z0-9_][a-z0-9_-]*$/.test(name) || parseImageName(name)) return;
  throw new DockerfileError(line, `FROM ${name} is neither a template nor an image, such as debian:bookworm.`);
}

class Making {
  readonly #options: MakeRecipeOptions;
  readonly #setup: TemplateSetupStep[] = [];
  readonly #titles: string[] = [];
  readonly #lines: number[] = [];
  #env: Record<string, string> = {};
  /** Directories of `WORKDIR` that no step has created yet. */
  #directories: string[] = [];
  /** Line of the last of them. */
  #directoriesLine = 1;
  #inlineBytes = 0;

  constructor(options: MakeRecipeOptions) {
    this.#options = options;
  }

  async add(step: PlanStep): Promise<void> {
    switch (step.kind) {
      case 'env':
        this.#env = { ...this.#env, ...step.env };
        return;
      case 'workdir':
        this.#directories.push(step.path);
        this.#directoriesLine = step.line;
        return;
      case 'run': {
        this.#makeDirectories();
        const { as, run } = runLine(step);
        const made = { as, run, cwd: step.cwd, env: { ...this.#env, ...step.args } };
        this.#push(made, `RUN ${step.argv.at(-1)}`, step.line);
        return;
      }
      case 'copy':
        await this.#copy(step);
    }
  }

  finish(from: TemplateRecipe['from']): DockerfileRecipe {
    this.#makeDirectories();
    if (this.#setup.length > LIMITS.templateSetupSteps)
      throw new DockerfileError(1, `the file has more than ${LIMITS.templateSetupSteps} steps; join RUN lines by &&.`);
    return { recipe: { from, setup: this.#setup, env: this.#env }, titles: this.#titles, lines: this.#lines };
  }

  #push(step: TemplateSetupStep, title: string, line: number): void {
    this.#setup.push(step);
    this.#titles.push(title);
    this.#lines.push(line);
  }

  /** Adds one step for all directories that are due, because each step is captured. */
  #makeDirectories(): void {
    if (this.#directories.length === 0) return;
    const [last] = this.#directories.slice(-1);
    const run = this.#directories.map(directoryLine).join(' && ');
    this.#push({ as: 'root', run, cwd: '/' }, `WORKDIR ${last}`, this.#directoriesLine);
    this.#directories = [];
  }

  async #copy(step: CopyStep): Promise<void> {
    this.#makeDirectories();
    const entries = [...this.#options.context.entries(step)];
    const title = `${step.keyword} ${[...step.sources, ...step.inline.map(({ name }) => `<<${name}`)].join(' ')} ${step.to}`;
    const archive = `/tmp/.cloche-copy-${this.#setup.length + 1}.tar.gz`;
    const content = await this.#contentOf(entries, title);
    this.#push({ files: [{ path: archive, mode: '0600', ...content }] }, title, step.line);
    const paths = entries.map(({ path }) => path);
    const run = unpackLine(step, archive, paths);
    this.#push({ as: 'root', run, cwd: '/' }, `${title} (unpack)`, step.line);
  }

  async #contentOf(entries: readonly CopiedEntry[], title: string) {
    // Packed, text takes less; what is larger than this would not fit anyway.
    const sizeBytes = entries.reduce((sum, entry) => sum + entry.sizeBytes, 0);
    if (sizeBytes <= INLINE_BYTES) {
      const bytes = await buffer(packEntries(entries));
      if (this.#inlineBytes + bytes.length <= INLINE_BYTES) {
        this.#inlineBytes += bytes.length;
        return { content: bytes.toString('base64'), encoding: 'base64' as const };
      }
    }
    return { artifactId: await this.#options.upload(packEntries(entries), title) };
  }
}
