import { posix } from 'node:path';
import { DockerfileError } from './dockerfile-error.ts';
import type { Heredoc, Instruction } from './instructions.ts';
import type { CopyStep } from './plan.ts';
import type { Variables } from './variables.ts';
import { readList } from './word-list.ts';

/** The advice for a flag that is not supported. Other flags of `COPY` and `ADD` are unknown. */
const REFUSED_FLAGS: Readonly<Record<string, string>> = {
  from: 'builds have one stage; copy files of another image by building FROM it, or put them into the context folder',
  parents: 'name the target directory of each source',
  exclude: 'list the paths in .dockerignore',
  checksum: 'download the file with RUN and check it there',
  'keep-git-dir': 'clone the repository with RUN',
};

/** Reads `COPY` or `ADD`. */
export function readCopy(instruction: Instruction, variables: Variables, cwd: string): CopyStep {
  const { line } = instruction;
  const keyword = instruction.keyword === 'ADD' ? 'ADD' : 'COPY';
  const { owner, mode } = readFlags(instruction, variables);
  const words = readList(instruction) ?? instruction.text.split(/\s+/).filter(Boolean);
  const names = words.map((word) => (heredocOf(word) ? word : variables.expand(word, instruction)));
  const target = names.pop();
  if (target === undefined || names.length === 0)
    throw new DockerfileError(line, `${keyword} needs at least one source and a target.`);
  const sources = names.filter((name) => !heredocOf(name));
  for (const source of sources) requireLocal(source, instruction);
  const inline = instruction.heredocs.map((heredoc) => ({
    name: heredoc.name,
    content: contentOf(heredoc, instruction, variables),
  }));
  const isDirectory = /(^|\/)\.{0,2}$/.test(target);
  if (names.length > 1 && !isDirectory)
    throw new DockerfileError(line, `${keyword} of several sources needs a target that ends with a slash: ${target}/.`);
  const to = posix.resolve(cwd, target);
  return { kind: 'copy', line, keyword, sources, inline, to: isDirectory && to !== '/' ? `${to}/` : to, owner, mode };
}

function readFlags(instruction: Instruction, variables: Variables): Pick<CopyStep, 'owner' | 'mode'> {
  const { line, keyword } = instruction;
  let owner: string | undefined;
  let mode: number | undefined;
  for (const flag of instruction.flags) {
    const value = variables.expand(flag.value, instruction);
    if (flag.name === 'chown') {
      if (!/^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$/.test(value))
        throw new DockerfileError(line, `--chown=${value} is invalid: give a user, or user:group.`);
      owner = value;
    } else if (flag.name === 'chmod') {
      if (!/^[0-7]{3,4}$/.test(value))
        throw new DockerfileError(line, `--chmod=${value} is invalid: give the mode in octal, such as 755.`);
      mode = Number.parseInt(value, 8);
    } else if (flag.name !== 'link') {
      const remedy = REFUSED_FLAGS[flag.name];
      throw new DockerfileError(line, `${keyword} --${flag.name} is not supported${remedy ? `; ${remedy}` : ''}.`);
    }
  }
  return { owner, mode };
}

/** Refuses URLs, which only a program in the sandbox may fetch, and paths out of the context. */
function requireLocal(source: string, { line, keyword }: Instruction): void {
  if (/^([a-z][a-z0-9+.-]*:\/\/|git@)/i.test(source))
    throw new DockerfileError(
      line,
      `${keyword} of ${source} is not supported; download it with RUN, such as RUN curl -fsSLO.`,
    );
  if (posix.normalize(`./${source}`).startsWith('..'))
    throw new DockerfileError(
      line,
      `${source} is outside the context folder; copy it there, or build with a parent folder.`,
    );
}

function heredocOf(word: string): boolean {
  return word.startsWith('<<');
}

function contentOf({ content, isQuoted }: Heredoc, instruction: Instruction, variables: Variables): string {
  return isQuoted ? content : variables.expand(content, instruction, false, 'text');
}
