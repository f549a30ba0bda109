/** JupyterLab whose kernels run in a service. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '@cloche/testkit/eventually';
import { CACHE_DIR } from '../../packages/guest/agent/testing/test-cache.ts';
import { ensurePythonTools } from '../../scripts/python-tools.ts';
import { pinnedEnvironment } from './pinned-environment.ts';

const LAB_REQUIREMENTS = join(import.meta.dirname, '../../requirements-jupyterlab.txt');
const REQUIREMENTS = [join(import.meta.dirname, '../../requirements-jupyter.txt'), LAB_REQUIREMENTS];
/** Time that a step may take on a busy machine. */
export const STEP_MS = 60_000;
/** Settings in place of the defaults of JupyterLab. */
const SETTINGS = {
  // A dialog would ask for news, and hide the notebook.
  '@jupyterlab/apputils-extension:notification': { fetchNews: 'false', checkForUpdates: false },
  // A dialog would ask for a name when the notebook is saved.
  '@jupyterlab/docmanager-extension:plugin': { renameUntitledFileOnSave: false },
  // Completions of the kernel that come later are dropped. The default is a second.
  '@jupyterlab/completer-extension:manager': { providerTimeout: STEP_MS },
  // All cells are in the page, also those that are not in view.
  '@jupyterlab/notebook-extension:tracker': { windowingMode: 'none' },
};

export interface JupyterLab {
  /** URL that opens it with its token. */
  readonly url: string;
  /** Folder of the notebooks. */
  readonly notebooks: string;
  close(): Promise<void>;
}

/** Starts JupyterLab on a free port, and resolves when it answers. */
export async function startJupyterLab(gateway: { url: string; apiKey: string }): Promise<JupyterLab> {
  const home = mkdtempSync(join(tmpdir(), 'cloche-jupyterlab-'));
  let program: ChildProcess | undefined;
  const close = async () => {
    if (program?.exitCode === null && program.kill('SIGKILL')) await once(program, 'exit');
    rmSync(home, { recursive: true, force: true });
  };
  try {
    const environment = pinnedEnvironment(join(home, 'environment'), REQUIREMENTS);
    const packages = ensurePythonTools(CACHE_DIR, LAB_REQUIREMENTS);
    const notebooks = join(home, 'notebooks');
    mkdirSync(notebooks);
    mkdirSync(join(home, 'config/labconfig'), { recursive: true });
    writeFileSync(join(home, 'config/labconfig/default_setting_overrides.json'), JSON.stringify(SETTINGS));
    const log = openSync(join(home, 'log'), 'w');
    const options = ['--no-browser', '--allow-root', '--ip=127.0.0.1', '--port=0'];
    program = spawn(join(environment, 'bin/python3'), ['-m', 'jupyterlab', ...options], {
      cwd: notebooks,
      env: {
        PATH: process.env.PATH,
        HOME: home,
        JUPYTER_PATH: join(packages, 'share/jupyter'),
        JUPYTERLAB_DIR: join(packages, 'share/jupyter/lab'),
        JUPYTER_CONFIG_PATH: join(packages, 'etc/jupyter'),
        JUPYTER_CONFIG_DIR: join(home, 'config'),
        JUPYTER_RUNTIME_DIR: join(home, 'runtime'),
        JUPYTER_TOKEN: 'test',
        JUPYTER_GATEWAY_URL: `${gateway.url}/jupyter`,
        JUPYTER_GATEWAY_AUTH_TOKEN: gateway.apiKey,
      },
      stdio: ['ignore', log, log],
    });
    return { url: `${await addressOf(program, home)}lab?token=test`, notebooks, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Resolves with the URL that the server of JupyterLab writes into a file once it listens. */
async function addressOf(program: ChildProcess, home: string): Promise<string> {
  let url: string | undefined;
  await eventually(
    () => {
      if (program.exitCode !== null)
        throw new Error(`JupyterLab has ended: ${readFileSync(join(home, 'log'), 'utf8')}`);
      const [file] = globSync('runtime/jpserver-*.json', { cwd: home });
      // The file is empty until all of it is written.
      const text = file === undefined ? '' : readFileSync(join(home, file), 'utf8');
      url = text.endsWith('}') ? (JSON.parse(text) as { url: string }).url : undefined;
      return url !== undefined;
    },
    { within: STEP_MS },
  );
  return String(url);
}
