import { posix } from 'node:path';
import { DockerfileError } from './dockerfile-error.ts';
import { type Instruction, parseInstructions } from './instructions.ts';
import type { DockerfilePlan, PlanStep } from './plan.ts';
import { readCopy } from './read-copy.ts';
import { DEFAULT_SHELL, readRun } from './read-run.ts';
import { Variables } from './variables.ts';
import { readList } from './word-list.ts';

export interface ReadOptions {
  readonly buildArgs?: Readonly<Record<string, string>>;
  /** Variables of the template or image that `FROM` names. */
  readonly baseEnv?: Readonly<Record<string, string>>;
  /** Directory in which the first instruction works. */
  readonly baseWorkdir?: string;
  /** User that runs the first instruction: a name or a number, with a group if one is given. Default: root. */
  readonly baseUser?: string;
  /** Program and arguments in front of the lines of `RUN`. Default: `/bin/sh -c`. */
  readonly baseShell?: readonly string[] | undefined;
  /** Instructions that follow `FROM`, from the `ONBUILD` of the image. */
  readonly baseTriggers?: readonly string[];
}

/** Most characters of one instruction of `ONBUILD`. */
const TRIGGER_LENGTH = 64 * 1024;
/** Instructions that Docker refuses in `ONBUILD`. */
const NO_TRIGGERS = ['FROM', 'ONBUILD', 'MAINTAINER'];

/** Instructions about starting a container of the image. A sandbox starts by the API instead. */
const WITHOUT_EFFECT: Readonly<Record<string, string>> = {
  CMD: 'start the program with `cloche exec` or `sandbox.commands`',
  ENTRYPOINT: 'start the program with `cloche exec` or `sandbox.commands`',
  EXPOSE: 'open a preview of a port with `cloche preview`',
  HEALTHCHECK: 'check the program with a command',
  LABEL: 'describe the template with --description',
  MAINTAINER: 'describe the template with --description',
  STOPSIGNAL: 'programs get SIGKILL when a sandbox ends',
  VOLUME: 'the directory is an ordinary one',
};

/** Reads a Dockerfile. @throws {DockerfileError} that names the line of an instruction that cannot be built. */
export function readDockerfile(source: string, options: ReadOptions = {}): DockerfilePlan {
  const { escapeCharacter, instructions } = parseInstructions(source);
  return new Reading(escapeCharacter, options).read(instructions);
}

/** Returns what `FROM` names, without reading the lines after it. @throws {DockerfileError} as `readDockerfile` */
export function readFrom(
  source: string,
  { buildArgs = {} }: Pick<ReadOptions, 'buildArgs'> = {},
): DockerfilePlan['from'] {
  const { escapeCharacter, instructions } = parseInstructions(source);
  const from = instructions.findIndex(({ keyword }) => keyword === 'FROM');
  const first = from === -1 ? instructions : instructions.slice(0, from + 1);
  return new Reading(escapeCharacter, { buildArgs }).read(first).from;
}

class Reading {
  readonly #variables: Variables;
  readonly #steps: PlanStep[] = [];
  readonly #warnings: string[] = [];
  #from: DockerfilePlan['from'] | undefined;
  #shell: readonly string[];
  readonly #triggers: readonly string[];
  #user: string;
  #workdir: string;

  constructor(
    escapeCharacter: string,
    {
      buildArgs = {},
      baseEnv = {},
      baseWorkdir = '/',
      baseUser = 'root',
      baseShell = DEFAULT_SHELL,
      baseTriggers = [],
    }: ReadOptions,
  ) {
    this.#variables = new Variables(escapeCharacter, { buildArgs, baseEnv });
    this.#shell = baseShell;
    this.#triggers = baseTriggers;
    this.#user = baseUser;
    this.#workdir = baseWorkdir;
  }

  read(instructions: readonly Instruction[]): DockerfilePlan {
    for (const instruction of instructions) this.#take(instruction);
    if (!this.#from) throw new DockerfileError(1, 'the file has no FROM; begin with FROM and the slug of a template.');
    for (const name of this.#variables.undeclared)
      this.#warnings.push(`the build argument ${name} has no effect: no ARG declares it.`);
    return { from: this.#from, steps: this.#steps, warnings: this.#warnings };
  }

  #take(instruction: Instruction): void {
    const { keyword, line } = instruction;
    if (!this.#from && keyword !== 'FROM' && keyword !== 'ARG')
      throw new DockerfileError(line, `${keyword} comes before FROM; only ARG may.`);
    switch (keyword) {
      case 'FROM':
        this.#takeFrom(instruction);
        return;
      case 'ARG':
        this.#variables.addArgs(instruction, this.#from === undefined);
        return;
      case 'ENV':
        this.#steps.push({ kind: 'env', line, env: this.#variables.addEnv(instruction) });
        return;
      case 'RUN':
        this.#takeRun(instruction);
        return;
      case 'COPY':
      case 'ADD':
        this.#steps.push(readCopy(instruction, this.#variables, this.#workdir));
        return;
      case 'WORKDIR':
        this.#workdir = posix.resolve(this.#workdir, this.#word(instruction));
        this.#steps.push({ kind: 'workdir', line, path: this.#workdir });
        return;
      case 'USER':
        this.#takeUser(instruction);
        return;
      case 'SHELL':
        this.#shell = readList(instruction) ?? [];
        if (this.#shell.length === 0)
          throw new DockerfileError(line, 'SHELL needs a list, such as ["/bin/bash", "-c"].');
        return;
      default:
        this.#takeOther(keyword, line);
    }
  }

  #takeFrom(instruction: Instruction): void {
    const { line, flags, text } = instruction;
    if (this.#from)
      throw new DockerfileError(
        line,
        'builds have one stage; build this stage as a template of its own and start FROM it.',
      );
    const [platform] = flags;
    if (platform)
      throw new DockerfileError(
        line,
        `FROM --${platform.name} is not supported: templates have the platform of the service.`,
      );
    const [, word = '', rest = ''] = /^(\S*)(?:\s+(.*))?$/.exec(text) ?? [];
    const name = this.#variables.expand(word, instruction, true);
    if (name === '') throw new DockerfileError(line, 'FROM needs the slug of a template or the name of an image.');
    if (rest !== '' && !/^as\s+\S+$/i.test(rest))
      throw new DockerfileError(line, `FROM ${name} is followed by ${rest}.`);
    this.#from = { line, name };
    for (const trigger of this.#triggers) this.#takeTrigger(trigger, line);
  }

  /** Takes an instruction of `ONBUILD`, at the line of `FROM`. */
  #takeTrigger(trigger: string, line: number): void {
    const [instruction, ...others] = trigger.length > TRIGGER_LENGTH ? [] : parseInstructions(trigger).instructions;
    if (!instruction || others.length > 0 || NO_TRIGGERS.includes(instruction.keyword))
      throw new DockerfileError(line, `the image has an invalid ONBUILD ${JSON.stringify(trigger.slice(0, 200))}.`);
    this.#take({ ...instruction, line });
  }

  #takeRun(instruction: Instruction): void {
    this.#steps.push({
      kind: 'run',
      line: instruction.line,
      argv: readRun(instruction, this.#shell, this.#warnings),
      user: this.#user,
      cwd: this.#workdir,
      args: this.#variables.args,
    });
  }

  #takeUser(instruction: Instruction): void {
    const user = this.#word(instruction);
    if (!/^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$/.test(user))
      throw new DockerfileError(instruction.line, `USER ${user} is invalid: give a user, or user:group.`);
    this.#user = user;
  }

  /** Returns the one argument of an instruction, which may contain spaces. */
  #word(instruction: Instruction): string {
    const value = this.#variables.expand(instruction.text, instruction);
    if (value === '') throw new DockerfileError(instruction.line, `${instruction.keyword} needs a value.`);
    return value;
  }

  #takeOther(keyword: string, line: number): void {
    const instead = WITHOUT_EFFECT[keyword];
    if (instead === undefined) {
      const why =
        keyword === 'ONBUILD'
          ? 'ONBUILD is not supported; write the instruction itself.'
          : `${keyword} is not an instruction.`;
      throw new DockerfileError(line, why);
    }
    this.#warnings.push(`line ${line}: ${keyword} has no effect: ${instead}.`);
  }
}
