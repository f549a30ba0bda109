import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { CACHE_DIR } from '../../packages/guest/agent/testing/test-cache.ts';
import { ensurePythonTools, PYTHON } from '../../scripts/python-tools.ts';
import type { TestService } from './service.ts';

const ROOT = join(import.meta.dirname, '../..');
const PROGRAM_MS = 240_000;

/** Pinned packages of the clients, by how old they are. */
export const E2B_PYTHON = { newest: 'requirements-e2b.txt', older: 'requirements-e2b-older.txt' } as const;

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program with E2B's clients for Python in their pinned versions, whose variables name the service. */
export function runE2bPython(
  program: string,
  { url, apiKey }: TestService,
  requirements: string = E2B_PYTHON.newest,
): Promise<Ended> {
  const env = {
    PATH: process.env.PATH,
    HOME: '/nonexistent',
    PYTHONPATH: ensurePythonTools(CACHE_DIR, join(ROOT, requirements)),
    PYTHONDONTWRITEBYTECODE: '1',
    // Clients of this age send no key that does not look like one of E2B.
    E2B_API_KEY: requirements === E2B_PYTHON.older ? `e2b_${Buffer.from(apiKey).toString('hex')}` : apiKey,
    E2B_API_URL: `${url}/e2b`,
    E2B_SANDBOX_URL: `${url}/e2b-box`,
  };
  return new Promise((resolve) => {
    const child = execFile(PYTHON, [join(ROOT, program)], { env, timeout: PROGRAM_MS }, (_error, stdout, stderr) => {
      resolve({ code: child.exitCode ?? 1, stdout, stderr });
    });
  });
}
