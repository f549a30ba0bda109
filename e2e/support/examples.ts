/** The examples of the command line's help and of READMEs, and running them as they are printed. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { compileCache } from '@cloche/testkit/compile-cache';
import { execa } from 'execa';
import { buildWholeProgram } from '../../packages/clients/cli/src/program.ts';
import { processTerminal } from '../../packages/clients/cli/src/terminal/terminal.ts';
import { writeSaved } from '../../packages/shared/image-archive/testing/make-image.ts';
import { busyboxRoot } from './image-root.ts';
import { packedCloche } from './packed-cloche.ts';

type Command = Awaited<ReturnType<typeof buildWholeProgram>>;

/** Returns the examples in the help of every command, without repetitions. */
export async function examplesOfHelp(): Promise<string[]> {
  const program = await buildWholeProgram('0', processTerminal());
  return [...new Set(allCommands(program).flatMap(examplesOf))];
}

function allCommands(command: Command): Command[] {
  return [command, ...command.commands.flatMap((each) => allCommands(each as Command))];
}

function examplesOf(command: Command): string[] {
  let help = '';
  command.configureOutput({ writeOut: (text) => (help += text) }).outputHelp();
  const examples = /^Examples:\n((?: {2}.*\n?)+)/m.exec(help)?.[1] ?? '';
  return examples
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
}

/** Returns the `sh` blocks of a README. */
export function blocksOf(file: string): string[] {
  return [...readFileSync(file, 'utf8').matchAll(/^```sh\n(.*?)^```/gms)].map(([, block = '']) => block.trimEnd());
}

/** Programs that examples have on the other side of a pipe, and that stand for what is not here. */
const PROGRAMS: Readonly<Record<string, string>> = {
  docker: `#!/bin/sh\nexec node ${resolve('e2e/support/save-image.ts')} "$@"\n`,
  npx: '#!/bin/sh\nexec "$@"\n',
  pg_dump: '#!/bin/sh\necho "create table $1 (a int);"\n',
  display: '#!/bin/sh\nexec cat > shown\n',
};

/** Files of this machine that examples name. */
const FILES: Readonly<Record<string, string>> = {
  'script.py': 'print("hello")\n',
  'untrusted.py': 'print(1)\n',
  'cell.ts': 'const n: number = 1;\nn + 1\n',
  'plot.py': 'import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n',
  'data.csv': 'b\na\nb\n',
  'nginx.conf': 'events {}\n',
  'src/main.py': 'print(1)\n',
  'app/package.json': '{ "name": "app", "version": "1.0.0", "scripts": { "build": "true" } }\n',
  'app/package-lock.json': `${JSON.stringify({ name: 'app', version: '1.0.0', lockfileVersion: 3, packages: { '': { name: 'app', version: '1.0.0' } } })}\n`,
  'package.json': '{ "name": "whole", "version": "1.0.0", "scripts": { "test": "true" } }\n',
  Makefile: 'test:\n\tmkdir -p reports\n\techo passed > reports/summary.xml\n',
  Dockerfile: 'FROM python-node\nRUN true\n',
  'docker/Dockerfile': 'FROM python-node\nARG VERSION\nRUN test "$VERSION" = 2\n',
  'template.json': '{ "from": "python-node", "setup": [{ "run": "true" }] }\n',
};

/** The service that examples use. */
export interface ExamplePlace {
  readonly url: string;
  readonly apiKey: string;
  readonly runDir: string;
}

/** Folder with what examples need: programs, files of this machine, and a home. */
export class ExampleFolder implements Disposable {
  readonly #root = mkdtempSync(join(tmpdir(), 'cloche-examples-'));
  #runs = 0;

  readonly #place: ExamplePlace;

  private constructor(place: ExamplePlace) {
    this.#place = place;
    for (const [name, content] of Object.entries(PROGRAMS)) this.#write(join('bin', name), content, 0o755);
    for (const [name, content] of Object.entries(FILES)) this.#write(join('files', name), content, 0o644);
    this.#write('files/key-file', `${place.apiKey}\n`, 0o600);
    writeSaved(join(this.#root, 'files/debian.tar'), { layers: [busyboxRoot()] });
  }

  static async open(place: ExamplePlace): Promise<ExampleFolder> {
    const cloche = await packedCloche();
    const folder = new ExampleFolder(place);
    symlinkSync(cloche, join(folder.#root, 'bin/cloche'));
    return folder;
  }

  /** Runs lines in bash, in a folder and a home of their own, in which `prod` is a saved service. */
  async run(lines: string, { timeoutMs }: { readonly timeoutMs: number }) {
    const { url, apiKey, runDir } = this.#place;
    this.#runs += 1;
    const home = join(this.#root, `run-${this.#runs}`);
    const folder = join(home, 'work');
    this.#write(
      `run-${this.#runs}/.config/cloche/config.json`,
      JSON.stringify({ services: { prod: { url, apiKey } } }),
      0o600,
    );
    cpSync(join(this.#root, 'files'), folder, { recursive: true });
    symlinkSync(resolve('node_modules'), join(home, 'node_modules'));
    const path = [join(this.#root, 'bin'), resolve('node_modules/.bin'), process.env.PATH].join(':');
    // Interrupts all that the lines started.
    const limit = ['-s', 'INT', '-k', '10', String(timeoutMs / 1000)];
    const ended = await execa('timeout', [...limit, 'bash', '-o', 'pipefail', '-c', lines], {
      cwd: folder,
      env: {
        PATH: path,
        HOME: home,
        LANG: 'C.UTF-8',
        CLOCHE_URL: url,
        CLOCHE_API_KEY: apiKey,
        CLOCHE_RUN_DIR: runDir,
        ...compileCache(),
      },
      extendEnv: false,
      stdin: 'ignore',
      all: true,
      reject: false,
    });
    return { exitCode: ended.exitCode, all: ended.all, timedOut: ended.exitCode === 124 };
  }

  [Symbol.dispose](): void {
    rmSync(this.#root, { recursive: true, force: true });
  }

  #write(name: string, content: string, mode: number): void {
    const path = join(this.#root, name);
    mkdirSync(join(path, '..'), { recursive: true });
    writeFileSync(path, content, { mode });
  }
}
