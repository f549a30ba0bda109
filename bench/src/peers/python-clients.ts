import { join } from 'node:path';
import { ensurePythonTools, PYTHON } from '../../../scripts/python-tools.ts';
import type { Subject } from '../subject.ts';
import { PEERS_DIR } from './template-root.ts';
import { TimingProcess } from './timing-process.ts';

const ROOT = join(import.meta.dirname, '../../..');
const PROGRAM = join(import.meta.dirname, 'python_client_peer.py');

/** Starts a process with E2B's client for Python or with the SDK, in pinned versions. It uses the service. */
export function startPythonClient(client: 'e2b' | 'sdk', { url, apiKey }: Subject): TimingProcess {
  const requirements = join(ROOT, client === 'e2b' ? 'requirements-e2b.txt' : 'requirements-dev.txt');
  const modules = [join(ROOT, 'packages/clients/sdk-python/src'), ensurePythonTools(PEERS_DIR, requirements)];
  return new TimingProcess(PYTHON, [PROGRAM, client], {
    PATH: process.env.PATH,
    HOME: '/nonexistent',
    PYTHONPATH: modules.join(':'),
    PYTHONDONTWRITEBYTECODE: '1',
    CLOCHE_URL: url,
    CLOCHE_API_KEY: apiKey,
    E2B_API_KEY: apiKey,
    E2B_API_URL: `${url}/e2b`,
    E2B_SANDBOX_URL: `${url}/e2b-box`,
  });
}
