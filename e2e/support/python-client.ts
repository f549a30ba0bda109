import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CACHE_DIR } from '../../packages/guest/agent/testing/test-cache.ts';
import { ensurePythonTools, PYTHON } from '../../scripts/python-tools.ts';

/** Longest time that a program may take. */
const PROGRAM_MS = 400_000;

export interface PythonClient {
  /** File of the packages that the program imports. */
  readonly requirements: string;
  /** Arguments of the interpreter. */
  readonly args: readonly string[];
  /** Folders of modules, before the packages. */
  readonly modules?: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Runs a program that uses a client of a service, in a home folder of its own. Returns what it printed. Throws if it
 * fails.
 */
export async function runPythonClient({ requirements, args, modules = [], env }: PythonClient): Promise<string> {
  const home = mkdtempSync(join(tmpdir(), 'cloche-python-client-'));
  try {
    const whole = {
      PATH: process.env.PATH,
      HOME: home,
      PYTHONPATH: [...modules, ensurePythonTools(CACHE_DIR, requirements)].join(':'),
      PYTHONDONTWRITEBYTECODE: '1',
      ...env,
    };
    return await new Promise((resolve, reject) => {
      const options = { cwd: home, env: whole, timeout: PROGRAM_MS };
      execFile(PYTHON, [...args], options, (error, stdout, stderr) => {
        if (error) reject(new Error(`${args.join(' ')} failed: ${stdout}${stderr}`));
        else resolve(stdout + stderr);
      });
    });
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}
