import { DockerfileError } from './dockerfile-error.ts';
import { type ExpandOptions, expand } from './expand-word.ts';
import type { Instruction } from './instructions.ts';

/** Build arguments that need no `ARG`. */
const PREDEFINED = /^(https?|ftp|no|all)_proxy$/i;

/** The variables of `ENV` and `ARG` at one place of a Dockerfile. */
export class Variables {
  readonly #escape: string;
  readonly #given: Readonly<Record<string, string>>;
  readonly #base: Readonly<Record<string, string>>;
  readonly #env: Record<string, string> = {};
  readonly #args: Record<string, string> = {};
  /** Build arguments before `FROM`: seen by `FROM`, and by an `ARG` of the same name without a value. */
  readonly #globals: Record<string, string> = {};
  readonly #declared = new Set<string>();

  constructor(
    escapeCharacter: string,
    { buildArgs, baseEnv }: { buildArgs: Readonly<Record<string, string>>; baseEnv: Readonly<Record<string, string>> },
  ) {
    this.#escape = escapeCharacter;
    this.#given = buildArgs;
    this.#base = baseEnv;
    for (const [name, value] of Object.entries(buildArgs)) if (PREDEFINED.test(name)) this.#args[name] = value;
  }

  /** Build arguments that no `ENV` of the same name hides, of the file or the image, for the environment of a `RUN`. */
  get args(): Record<string, string> {
    return Object.fromEntries(
      Object.entries(this.#args).filter(([name]) => !(name in this.#env || name in this.#base)),
    );
  }

  /** Names of build arguments that no `ARG` declares. */
  get undeclared(): string[] {
    return Object.keys(this.#given).filter((name) => !this.#declared.has(name) && !PREDEFINED.test(name));
  }

  addEnv(instruction: Instruction): Record<string, string> {
    // All values of one instruction see the variables before it.
    const added = Object.fromEntries(this.#assigned(instruction));
    Object.assign(this.#env, added);
    return added;
  }

  addArgs(instruction: Instruction, isGlobal: boolean): void {
    for (const { name, value } of instruction.assignments) {
      this.#declared.add(name);
      const fallback = value === undefined ? this.#globals[name] : this.expand(value, instruction, isGlobal);
      const known = this.#given[name] ?? fallback;
      if (known !== undefined) (isGlobal ? this.#globals : this.#args)[name] = known;
    }
    if (instruction.assignments.length === 0) throw new DockerfileError(instruction.line, 'ARG needs a name.');
  }

  /** Expands a word of an instruction. @throws {DockerfileError} */
  expand(word: string, { line }: Instruction, isGlobal = false, form: ExpandOptions['form'] = 'word'): string {
    const lookup = (name: string) =>
      isGlobal ? this.#globals[name] : (this.#env[name] ?? this.#base[name] ?? this.#args[name]);
    try {
      return expand(word, lookup, { escapeCharacter: this.#escape, form });
    } catch (error) {
      if (error instanceof SyntaxError) throw new DockerfileError(line, `${error.message}.`);
      throw error;
    }
  }

  *#assigned(instruction: Instruction): Generator<[string, string]> {
    if (instruction.assignments.length === 0) throw new DockerfileError(instruction.line, 'ENV needs NAME=value.');
    for (const { name, value } of instruction.assignments) {
      if (value === undefined)
        throw new DockerfileError(instruction.line, `ENV ${name} needs a value: ENV ${name}=value.`);
      if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
        throw new DockerfileError(instruction.line, `${JSON.stringify(name)} is not a valid name of a variable.`);
      yield [name, this.expand(value, instruction)];
    }
  }
}
