/** Runs guides as they are written: each `sh` block in turn, in one shell, and compares its output with the guide. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { compileCache } from '@cloche/testkit/compile-cache';
import { CACHE_DIR } from '../../packages/guest/agent/testing/test-cache.ts';
import { SDK_PYTHON } from '../../scripts/python-sdk.ts';
import { ensurePythonTools } from '../../scripts/python-tools.ts';
import { packedCloche } from './packed-cloche.ts';

/** Guides whose commands stop services and change their settings. */
export const OPERATORS_GUIDES: readonly string[] = [
  'docs/guides/backup.md',
  'docs/guides/scale.md',
  'docs/guides/tls.md',
];

export interface Step {
  /** Line of the file where the block begins, from 1. */
  readonly line: number;
  readonly script: string;
  /** Lines that the output must contain, in this order; `…` stands for any text. */
  readonly shown: readonly string[];
}

export interface GuideService {
  readonly url: string;
  readonly apiKey: string;
  /** Folder of the operator's socket, for `cloche admin`. */
  readonly runDir: string;
  /** Further variables. */
  readonly env?: Readonly<Record<string, string>>;
  /** Folder of programs that stand for those of the operator's host. */
  readonly binDir?: string;
}

/** Returns the `sh` blocks of a guide. A `text` block directly below one shows its output. */
export function stepsOf(markdown: string): Step[] {
  const steps: { line: number; script: string; shown: string[] }[] = [];
  let open: { kind: string; line: number; lines: string[] } | undefined;
  let isRightBelow = false;
  for (const [index, line] of markdown.split('\n').entries()) {
    const [, kind] = /^```(\w*)\s*$/.exec(line) ?? [];
    if (kind === undefined) {
      if (open) open.lines.push(line);
      else if (line.trim() !== '') isRightBelow = false;
    } else if (!open) open = { kind, line: index + 1, lines: [] };
    else {
      if (open.kind === 'sh') steps.push({ line: open.line, script: open.lines.join('\n'), shown: [] });
      else if (open.kind === 'text' && isRightBelow) steps.at(-1)?.shown.push(...open.lines.filter(Boolean));
      isRightBelow = open.kind === 'sh';
      open = undefined;
    }
  }
  return steps;
}

/** Returns the languages of all blocks. */
export function kindsOf(markdown: string): Set<string> {
  const fences = [...markdown.matchAll(/^ *```(\w*)\s*$/gm)].map(([, kind = '']) => kind);
  return new Set(fences.filter((_, index) => index % 2 === 0));
}

/** Returns the TypeScript programs of a guide: blocks, and files that an `sh` block writes. */
export function programsOf(markdown: string): string[] {
  const blocks = markdown.matchAll(/^ *```ts\n(.*?)^ *```/gms);
  const files = markdown.matchAll(/^cat > \S+\.ts <<'END'\n(.*?)^END$/gms);
  return [...blocks, ...files].map(([, program = '']) => program);
}

/**
 * Runs all steps in one shell that stops at the first failure.
 *
 * @throws an error that names the line of the guide
 */
export async function runGuide(file: string, service: GuideService, timeoutMs: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-guide-'));
  try {
    const steps = stepsOf(readFileSync(file, 'utf8'));
    const exitCode = await runSteps(steps, folder, service, timeoutMs);
    for (const [index, step] of steps.entries()) {
      const where = `${file}:${step.line}`;
      const output = outputOf(folder, index);
      if (output === undefined) throw new Error(`${where} was not reached`);
      const isLast = !existsSync(join(folder, `out-${index + 1}`));
      if (isLast && exitCode !== 0) throw new Error(`${where} ended with ${exitCode ?? 'its time up'}:\n${output}`);
      const missing = firstMissing(step.shown, output);
      if (missing !== undefined) throw new Error(`${where} does not print "${missing}" where it says so:\n${output}`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Resolves with the shell's exit code; null when it had to be killed. */
async function runSteps(
  steps: readonly Step[],
  folder: string,
  { url, apiKey, runDir, env = {}, binDir = '' }: GuideService,
  timeoutMs: number,
): Promise<number | null> {
  for (const name of ['bin', 'work']) mkdirSync(join(folder, name));
  symlinkSync(await packedCloche(), join(folder, 'bin/cloche'));
  writeFileSync(join(folder, 'bin/docker'), `#!/bin/sh\nexec node ${resolve('e2e/support/save-image.ts')} "$@"\n`, {
    mode: 0o755,
  });
  // Makes packages available, as `npm install @cloche/sdk` does.
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
  const blocks = steps.map(({ script }, index) => {
    writeFileSync(join(folder, `block-${index}`), `${script}\n`);
    return `exec >${folder}/out-${index} 2>&1\n. ${folder}/block-${index}`;
  });
  writeFileSync(join(folder, 'guide'), `set -e\n${blocks.join('\n')}\n`);
  const path = [binDir, join(folder, 'bin'), resolve('node_modules/.bin'), process.env.PATH].filter(Boolean).join(':');
  const shell = spawn('bash', [join(folder, 'guide')], {
    cwd: join(folder, 'work'),
    env: {
      PATH: path,
      HOME: join(folder, 'work'),
      LANG: 'C.UTF-8',
      // Makes the package available, as `pip install cloche` does.
      PYTHONPATH: pythonPath(),
      CLOCHE_URL: url,
      CLOCHE_API_KEY: apiKey,
      CLOCHE_RUN_DIR: runDir,
      // Each guide has a home of its own, and `cloche` starts often.
      ...compileCache(),
      ...env,
    },
    stdio: 'ignore',
    // A process group of its own, so that processes that a block left running can be killed with it.
    detached: true,
  });
  const endAll = () => {
    try {
      process.kill(-(shell.pid ?? 0), 'SIGKILL');
    } catch {
      // The group has already ended.
    }
  };
  const timer = setTimeout(endAll, timeoutMs);
  const [exitCode] = (await once(shell, 'exit')) as [number | null];
  clearTimeout(timer);
  endAll();
  return exitCode;
}

function pythonPath(): string {
  const requirements = [undefined, resolve('requirements-jupyter.txt')];
  const tools = requirements.map((file) => ensurePythonTools(CACHE_DIR, file));
  return [join(SDK_PYTHON, 'src'), ...tools].join(':');
}

function outputOf(folder: string, index: number): string | undefined {
  const path = join(folder, `out-${index}`);
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
}

/** Returns the first entry of `shown` that no remaining line of `output` matches. */
export function firstMissing(shown: readonly string[], output: string): string | undefined {
  const lines = output.split(/[\r\n]+/).map((line) => line.trimEnd());
  let from = 0;
  for (const line of shown) {
    const pattern = new RegExp(`^${line.trimEnd().split('…').map(escaped).join('.*')}$`);
    const at = lines.findIndex((each, index) => index >= from && pattern.test(each));
    if (at === -1) return line;
    from = at + 1;
  }
  return undefined;
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
