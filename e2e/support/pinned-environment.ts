import { execFileSync } from 'node:child_process';
import { globSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { CACHE_DIR } from '../../packages/guest/agent/testing/test-cache.ts';
import { ensurePythonTools, PYTHON } from '../../scripts/python-tools.ts';

/**
 * Makes a virtual environment that has the packages of files of requirements, and nothing of the machine's Python.
 *
 * @param sources folders of further packages
 * @returns the folder
 */
export function pinnedEnvironment(
  folder: string,
  requirements: readonly string[],
  sources: readonly string[] = [],
): string {
  execFileSync(PYTHON, ['-m', 'venv', '--without-pip', folder]);
  const [libraries = ''] = globSync(join(folder, 'lib/python3*/site-packages'));
  const tools = requirements.map((file) => ensurePythonTools(CACHE_DIR, resolve(file)));
  writeFileSync(join(libraries, 'pinned.pth'), [...sources, ...tools, ''].join('\n'));
  return folder;
}
