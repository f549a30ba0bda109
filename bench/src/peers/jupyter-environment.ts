import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { newestTemplate, PEERS_DIR } from './template-root.ts';

const execute = promisify(execFile);

/** Packages that the peers need in addition to those that a cell may import. */
const JUPYTER = ['jupyter_client', 'ipykernel', 'jupyter_kernel_gateway'];
const SHARED = ['ipython', 'numpy', 'pandas', 'matplotlib'];

/**
 * Returns the Python of an environment with Jupyter and the template's versions of the shared packages. Created once.
 */
export async function jupyterPython(say: (line: string) => void): Promise<string> {
  const { manifest } = newestTemplate();
  const versions = manifest.packages.pip ?? {};
  const pinned = SHARED.flatMap((name) => (versions[name] ? [`${name}==${versions[name]}`] : [name]));
  const wanted = [...JUPYTER, ...pinned];
  const digest = createHash('sha256').update(wanted.join('\n')).digest('hex').slice(0, 12);
  const folder = join(PEERS_DIR, `jupyter-${digest}`);
  if (existsSync(folder)) return join(folder, 'bin', 'python');
  say(`jupyter: installing ${wanted.join(' ')}, once`);
  rmSync(`${folder}.new`, { recursive: true, force: true });
  await execute('/usr/bin/python3', ['-m', 'venv', `${folder}.new`]);
  await execute(join(`${folder}.new`, 'bin', 'python'), ['-m', 'pip', 'install', '--quiet', ...wanted]);
  renameSync(`${folder}.new`, folder);
  return join(folder, 'bin', 'python');
}
